// Writes a header that says, of the message ROOT of a .proto file and of those in it, which fields
// hold messages or lists of strings: what a reader needs to know how many objects a file would
// become before protobuf makes them.
//
// Usage: message_fields DESCRIPTORS ROOT HEADER, where `protoc --descriptor_set_out` wrote the
// first

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <vector>

namespace pb = google::protobuf;

namespace {

/// "TypeProto_Tensor", as protoc names the class.
std::string class_of(const pb::Descriptor& message) {
  std::string name(message.name());
  for (const pb::Descriptor* outer = message.containing_type(); outer;
       outer = outer->containing_type()) {
    name = std::string(outer->name()) + "_" + name;
  }
  return name;
}

/// "tv::onnx_proto" of tv.onnx_proto.
std::string scope_of(const pb::FileDescriptor& file) {
  std::string scope(file.package());
  for (size_t dot = 0; (dot = scope.find('.', dot)) != std::string::npos;) {
    scope.replace(dot, 1, "::");
  }
  return scope;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  std::ifstream in(argv[1], std::ios::binary);
  pb::FileDescriptorSet set;
  pb::DescriptorPool pool;
  const bool read = set.ParseFromIstream(&in) && set.file_size() == 1;
  const pb::FileDescriptor* file = read ? pool.BuildFile(set.file(0)) : nullptr;
  const pb::Descriptor* root = file ? file->FindMessageTypeByName(argv[2]) : nullptr;
  if (!root) {
    std::fprintf(stderr, "%s has no message %s\n", argv[1], argv[2]);
    return 1;
  }
  std::vector<const pb::Descriptor*> messages = {root};
  std::string fields, sizes;
  for (size_t m = 0; m < messages.size(); ++m) {  // grows
    sizes += "    sizeof(" + class_of(*messages[m]) + "),\n";
    for (int f = 0; f < messages[m]->field_count(); ++f) {
      const pb::FieldDescriptor& field = *messages[m]->field(f);
      const pb::Descriptor* inner = field.message_type();
      const bool strings = field.is_repeated() && field.cpp_type() == field.CPPTYPE_STRING;
      if (!inner && !strings) continue;
      auto found = std::find(messages.begin(), messages.end(), inner);
      const auto is = inner ? found - messages.begin() : -1;
      if (inner && found == messages.end()) messages.push_back(inner);
      fields += "    {" + std::to_string(m) + ", " + std::to_string(field.number()) + ", " +
                std::to_string(is) + "},  // " + std::string(field.full_name()) + "\n";
    }
  }
  const std::string proto(file->name());
  std::ofstream out(argv[3]);
  out << "#pragma once\n// Made of " << proto << " by cmake/message_fields.cpp.\n\n"
      << "#include <" << proto.substr(0, proto.size() - 5) << "pb.h>\n\n"
      << "namespace " << scope_of(*file) << " {\n\n"
      << "/// Bytes of a message; the first is " << argv[2] << ".\n"
      << "inline constexpr size_t kMessageBytes[] = {\n"
      << sizes << "};\n\n"
      << "struct MessageField {\n"
      << "  int of;  ///< its message, an index into kMessageBytes\n"
      << "  uint32_t number;\n"
      << "  int is;  ///< the message that it holds; -1: a string of a list\n};\n"
      << "inline constexpr MessageField kMessageFields[] = {\n"
      << fields << "};\n\n}\n";
  return out.good() ? 0 : 1;
}
