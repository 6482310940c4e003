#include "csrc/codegen/accessors.h"

#include <algorithm>
#include <array>

#include "csrc/codegen/glsl_types.h"
#include "csrc/codegen/pointwise_codegen.h"
#include "runtime/base/error.h"

namespace tv {

namespace {

std::string vector_type(DType dtype) {
  switch (glsl_class(dtype)) {
    case GlslClass::kFloat:
      return "vec4";
    case GlslClass::kInt64:
      return "i64vec4";
    default:
      return "ivec4";
  }
}

bool is_dense(const KernelOperand& x) {
  return x.shape.empty() || (x.shape.size() == 1 && x.strides[0] == Expr(1));
}

/// Has <name>_vec4 and <name>_raw_store4.
bool has_vectors(const KernelOperand& x) { return x.vec4 || x.fours; }

/// "uint o = …" for element `i`: divides the index by the inner dimensions, innermost first.
std::string index_body(const KernelOperand& x, KernelWords& words) {
  if (x.shape.empty()) return "return 0u;";
  const auto scaled = [&](const std::string& coordinate, const Expr& stride) {
    if (stride == Expr(1)) return coordinate;
    return coordinate + " * " + words.uint_word(stride);
  };
  if (x.shape.size() == 1) {
    if (x.strides[0] == Expr(0)) return "return 0u;";
    return "return " + scaled("i", x.strides[0]) + ";";
  }
  std::string body = "uint r = i, q, o = 0u;\n";
  for (size_t k = x.shape.size() - 1; k > 0; --k) {
    body += "  q = " + words.division("r", x.shape[k]) + ";";
    if (!(x.strides[k] == Expr(0))) {
      body +=
          " o += " + scaled("(r - q * " + words.uint_word(x.shape[k]) + ")", x.strides[k]) + ";";
    }
    body += " r = q;\n";
  }
  if (!(x.strides[0] == Expr(0))) body += "  o += " + scaled("r", x.strides[0]) + ";\n";
  return body + "  return o;";
}

/// Storage of four neighbours as one access; types are those of tv.glsl.
struct VectorAccess {
  std::string reference, from, to;  // conversions to and from the vector; "" where there is none
};

VectorAccess vector_access(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return {"tv_ref_f32x4", "", ""};
    case DType::kI32:
      return {"tv_ref_i32x4", "", ""};
    case DType::kF16:
      return {"tv_ref_u32x2", "tv_f16x4", "tv_to_f16x4"};
    case DType::kBF16:
      return {"tv_ref_u32x2", "tv_bf16x4", "tv_to_bf16x4"};
    case DType::kI16:
      return {"tv_ref_u32x2", "tv_i16x4", "tv_to_i16x4"};
    case DType::kI8:
      return {"tv_ref_u32", "tv_i8x4", "tv_to_u8x4"};
    case DType::kU8:
    case DType::kBool:
      return {"tv_ref_u32", "tv_u8x4", "tv_to_u8x4"};
    default:
      return {};
  }
}

std::string vector_raw_accessors(const KernelOperand& x, const std::string& at_first) {
  const std::string& n = x.name;
  const VectorAccess access = vector_access(x.dtype);
  const std::string type = vector_type(x.dtype);
  std::string text;
  if (access.reference.empty()) {  // int64: no 32-byte access, four of 8
    text += type + " " + n + "_vec4(uint i) { return " + type + "(" + n + "_raw(i), " + n +
            "_raw(i + 1u), " + n + "_raw(i + 2u), " + n + "_raw(i + 3u)); }\n";
    if (x.write) {
      text += "void " + n + "_raw_store4(uint i, " + type + " v) { " + n + "_raw_store(i, v.x); " +
              n + "_raw_store(i + 1u, v.y); " + n + "_raw_store(i + 2u, v.z); " + n +
              "_raw_store(i + 3u, v.w); }\n";
    }
    return text;
  }
  const std::string element = access.reference + "(" + n + "_ptr).v[" + at_first + " >> 2]";
  // A stored bool may be any byte but 0 where it came from foreign memory.
  const std::string loaded = x.dtype == DType::kBool
                                 ? "ivec4(notEqual(tv_u8x4(" + element + "), ivec4(0)))"
                                 : access.from + "(" + element + ")";
  text += type + " " + n + "_vec4(uint i) { return " + loaded + "; }\n";
  if (x.write) {
    const std::string value = x.dtype == DType::kBool ? "ivec4(notEqual(v, ivec4(0)))" : "v";
    text += "void " + n + "_raw_store4(uint i, " + type + " v) { " + element + " = " + access.to +
            "(" + value + "); }\n";
  }
  return text;
}

/// A program's inputs, each with a comma behind it: one of constants has none.
std::string parameter_list(const KernelOperand& x, const KernelRequest& request,
                           const char* suffix) {
  std::string list;
  for (uint32_t k : x.program_inputs) list += request.operands.at(k).name + suffix + ", ";
  return list;
}

/// Calls the prologue on element `i` or on each lane of four.
std::string prologue_loads(const KernelOperand& x, const KernelRequest& request) {
  const std::string& n = x.name;
  std::string text = n + "_T " + n + "_load(uint i) { " + n + "_T r; " + n + "_prologue(" +
                     parameter_list(x, request, "_load(i)") + "r); return r; }\n";
  text += n + "_V " + n + "_load4(uint i) {\n";
  std::string lanes[4];
  for (size_t k = 0; k < x.program_inputs.size(); ++k) {
    const std::string& input = request.operands.at(x.program_inputs[k]).name;
    const std::string a = "a" + std::to_string(k);
    text += "  const " + input + "_V " + a + " = " + input + "_load4(i);\n";
    for (int lane = 0; lane < 4; ++lane) lanes[lane] += a + "." + "xyzw"[lane] + ", ";
  }
  text += "  " + n + "_V r; " + n + "_T t;\n";
  for (int lane = 0; lane < 4; ++lane) {
    text += "  " + n + "_prologue(" + lanes[lane] + "t); r." + "xyzw"[lane] + " = t;\n";
  }
  return text + "  return r;\n}\n";
}

std::string loads_of_number(const KernelOperand& x) {
  const std::string& n = x.name;
  return n + "_T " + n + "_number;\n" + n + "_T " + n + "_load(uint i) { return " + n +
         "_number; }\n" + n + "_V " + n + "_load4(uint i) { return " + n + "_V(" + n +
         "_number); }\n";
}

std::string plain_loads(const KernelOperand& x) {
  const std::string& n = x.name;
  std::string text = n + "_T " + n + "_load(uint i) { return " + n + "_raw(" + n +
                     "_index(i)); }\n" + n + "_V " + n + "_load4(uint i) { ";
  const auto four = [&](const std::string& o, const std::string& step) {
    return n + "_V(" + n + "_raw(" + o + "), " + n + "_raw(" + o + " + " + step + "), " + n +
           "_raw(" + o + " + 2u * " + step + "), " + n + "_raw(" + o + " + 3u * " + step + "))";
  };
  const auto inner = x.shape.empty() ? std::nullopt : x.shape.back().constant();
  if (x.shape.empty() || (x.shape.size() == 1 && x.strides[0] == Expr(0))) {
    text += "return " + n + "_V(" + n + "_raw(0u));";
  } else if (has_vectors(x) && is_dense(x)) {
    text += "return " + n + "_vec4(i);";
  } else if (x.fours) {
    text += "return " + n + "_vec4(" + n + "_index(i));";
  } else if (is_dense(x)) {
    text += "return " + four("i", "1u") + ";";
  } else if (inner && *inner % 4 == 0 && x.strides.back() == Expr(0)) {
    text += "return " + n + "_V(" + n + "_raw(" + n + "_index(i)));";
  } else if (inner && *inner % 4 == 0 && x.strides.back() == Expr(1)) {
    text += "const uint o = " + n + "_index(i); return " + four("o", "1u") + ";";
  } else {
    text += "return " + n + "_V(" + n + "_load(i), " + n + "_load(i + 1u), " + n +
            "_load(i + 2u), " + n + "_load(i + 3u));";
  }
  return text + " }\n";
}

/// Stores `v`, the epilogue's result (or an <name>_T), at element `i`.
std::string plain_stores(const KernelOperand& x, const std::string& suffix) {
  const std::string& n = x.name;
  const std::string type = glsl_type(x.dtype), vector = vector_type(x.dtype);
  std::string text = "void " + n + "_store" + suffix + "(uint i, " + type + " v) { " + n +
                     "_raw_store(" + n + "_index(i), v); }\n" + "void " + n + "_store4" + suffix +
                     "(uint i, " + vector + " v) { ";
  if (has_vectors(x) && is_dense(x)) {
    text += n + "_raw_store4(i, v);";
  } else if (x.fours) {
    text += n + "_raw_store4(" + n + "_index(i), v);";
  } else {
    for (int lane = 0; lane < 4; ++lane) {
      text +=
          n + "_store" + suffix + "(i + " + std::to_string(lane) + "u, v." + "xyzw"[lane] + "); ";
    }
  }
  return text + " }\n";
}

/// The two halves of a store without an epilogue.
std::string plain_values(const std::string& n) {
  return "#define " + n + "_R " + n + "_T\n#define " + n + "_RV " + n + "_V\n#define " + n +
         "_value(i, v) (v)\n" + "#define " + n + "_value4(i, v) (v)\n#define " + n + "_put " + n +
         "_store\n#define " + n + "_put4 " + n + "_store4\n";
}

std::string epilogue_stores(const KernelOperand& x, const KernelRequest& request) {
  const std::string& n = x.name;
  const std::string inputs = parameter_list(x, request, "_load(i)");
  std::string text = plain_stores(x, "_result");
  const std::string type = glsl_type(x.dtype);
  const std::string vector = vector_type(x.dtype);
  text += "#define " + n + "_R " + type + "\n#define " + n + "_RV " + vector + "\n#define " + n +
          "_put " + n + "_store_result\n#define " + n + "_put4 " + n + "_store4_result\n";
  text += type + " " + n + "_value(uint i, " + n + "_T v) { " + type + " r; " + n +
          "_epilogue(v, " + inputs + "r); return r; }\n";
  text +=
      "void " + n + "_store(uint i, " + n + "_T v) { " + n + "_put(i, " + n + "_value(i, v)); }\n";
  text += vector + " " + n + "_value4(uint i, " + n + "_V v) {\n";
  std::string lanes[4];
  for (size_t k = 0; k < x.program_inputs.size(); ++k) {
    const std::string& input = request.operands.at(x.program_inputs[k]).name;
    const std::string a = "a" + std::to_string(k);
    text += "  const " + input + "_V " + a + " = " + input + "_load4(i);\n";
    for (int lane = 0; lane < 4; ++lane) lanes[lane] += ", " + a + "." + "xyzw"[lane];
  }
  text += "  " + vector + " r; " + type + " t;\n";
  for (int lane = 0; lane < 4; ++lane) {
    const std::string c(1, "xyzw"[lane]);
    text += "  " + n + "_epilogue(v." + c + lanes[lane] + ", t); r." + c + " = t;\n";
  }
  return text + "  return r;\n}\nvoid " + n + "_store4(uint i, " + n + "_V v) { " + n +
         "_put4(i, " + n + "_value4(i, v)); }\n";
}

}  // namespace

std::string raw_accessors(const KernelOperand& x, KernelWords& words,
                          const AccessorOptions& options) {
  const std::string& n = x.name;
  std::string text = "#define " + n + "_T " + glsl_type(x.value_dtype) + "\n#define " + n + "_V " +
                     vector_type(x.value_dtype) + "\n";
  if (!x.stored) return text;
  text += "#define " + n + "_ptr (tv_p.a_" + n + ")\n";

  std::string at = "i", at4 = "i";
  if (options.check) {
    const std::string limit = words.uint_word(x.storage_elements);
    const std::string number = std::to_string(options.number) + "u";
    text +=
        "uint " + n + "_at(uint i) { return tv_check(" + number + ", i, 1u, " + limit + "); }\n";
    text +=
        "uint " + n + "_at4(uint i) { return tv_check(" + number + ", i, 4u, " + limit + "); }\n";
    at = n + "_at(i)";
    at4 = n + "_at4(i)";
  }
  if (options.indexed) text += "uint " + n + "_index(uint i) { " + index_body(x, words) + " }\n";
  const std::string type = glsl_type(x.dtype);
  const std::string element = n + "_ptr.v[" + at + "]";
  text += type + " " + n + "_raw(uint i) { return " + glsl_from_storage(element, x.dtype) + "; }\n";
  if (x.write) {
    text += "void " + n + "_raw_store(uint i, " + type + " v) { " + element + " = " +
            glsl_to_storage("v", x.dtype) + "; }\n";
  }
  if (has_vectors(x)) text += vector_raw_accessors(x, at4);
  return text;
}

bool is_number(const KernelOperand& x) {
  return std::ranges::all_of(x.strides, [](const Expr& stride) { return stride == Expr(0); });
}

std::string number_load(const KernelOperand& x) {
  return x.name + "_number = " + x.name + "_raw(0u);";
}

std::string element_accessors(const KernelOperand& x, const KernelRequest& request, bool once) {
  if (once) return loads_of_number(x);
  const bool has_epilogue = x.program != nullptr && x.write;
  const bool has_prologue = x.program != nullptr && !x.write;
  std::string text;
  if (x.program != nullptr) {
    if (x.program->results.size() != 1 ||
        x.program->inputs.size() != x.program_inputs.size() + (has_epilogue ? 1 : 0)) {
      throw Error(ErrorKind::kInternal,
                  "[codegen] operand " + x.name + ": its fused program does not match its inputs");
    }
    text += pointwise_function(*x.program, x.name + (has_epilogue ? "_epilogue" : "_prologue"));
  }
  if (has_prologue) text += prologue_loads(x, request);
  // Storage and value types may differ under an epilogue; what is read back is the stored value.
  if (!has_prologue && x.stored && (x.read || !x.write) && !has_epilogue) text += plain_loads(x);
  if (x.write)
    text += has_epilogue ? epilogue_stores(x, request) : plain_stores(x, "") + plain_values(x.name);
  return text;
}

namespace {

/// Elements i … i + LANES - 1 for a uniform i, where they lie in one run of the storage.
std::string simd_load(const KernelOperand& x, const Expr& simd_row) {
  const std::string& n = x.name;
  std::string text = n + "_T " + n + "_simd(uint i) { return ";
  const bool constant = x.shape.empty() || x.strides.back() == Expr(0);
  const bool whole_runs = x.shape.empty() || mod(x.shape.back(), simd_row) == Expr(0);
  if (x.dtype == DType::kF32 && whole_runs && constant) {
    text += n + "_raw(" + n + "_index(i))";
  } else if (x.dtype == DType::kF32 && whole_runs && x.strides.back() == Expr(1)) {
    text += "simd_load(simd_at(" + n + "_ptr, " + n + "_index(i)))";
  } else {
    text += n + "_load(i + gl_SubgroupInvocationID)";
  }
  return text + "; }\n";
}

/// As simd_load, through the prologue.
std::string simd_prologue(const KernelOperand& x, const KernelRequest& request) {
  return x.name + "_T " + x.name + "_simd(uint i) { " + x.name + "_T r; " + x.name + "_prologue(" +
         parameter_list(x, request, "_simd(i)") + "r); return r; }\n";
}

/// Elements i … i + 2 * LANES - 1 for a uniform i, through the epilogue: computed by
/// <name>_simd_store2, in memory after <name>_simd_release.
std::string simd_store(const KernelOperand& x, const KernelRequest& request) {
  const std::string& n = x.name;
  const std::string type = glsl_type(x.dtype);
  std::string text = "simd_held " + n + "_simd_store2(uint i, " + n + "_T a, " + n + "_T b) {\n  " +
                     type + " r, s;\n";
  if (x.program != nullptr) {
    for (const auto& [from, to, at] : {std::array<const char*, 3>{"a", "r", "i"},
                                       std::array<const char*, 3>{"b", "s", "i + LANES"}}) {
      text += "  " + n + "_epilogue(" + from;
      for (uint32_t k : x.program_inputs) {
        text += ", " + request.operands.at(k).name + "_simd(" + at + ")";
      }
      text += std::string(", ") + to + ");\n";
    }
  } else {
    text += "  r = a; s = b;\n";
  }
  if (x.dtype == DType::kF32 && is_dense(x)) {
    return text + "  return simd_store2(simd_at(" + n + "_ptr, i), r, s);\n}\nvoid " + n +
           "_simd_release(simd_held h) { simd_release(h); }\n";
  }
  const std::string store = x.program != nullptr ? "_store_result(i + " : "_store(i + ";
  return text + "  " + n + store + "gl_SubgroupInvocationID, r);\n  " + n + store +
         "LANES + gl_SubgroupInvocationID, s);\n  return simd_held(0ul, 0ul);\n}\nvoid " + n +
         "_simd_release(simd_held h) {}\n";
}

}  // namespace

std::string simd_accessors(const KernelOperand& x, const KernelRequest& request) {
  const Expr& simd_row = request.step.simd_row;
  if (simd_row == Expr(0)) return "";
  std::string text;
  const bool is_prologue = x.program != nullptr && !x.write;
  if (is_prologue) text += simd_prologue(x, request);
  if (x.read && x.stored && !is_prologue) text += simd_load(x, simd_row);
  if (x.write) text += simd_store(x, request);
  return text;
}

}  // namespace tv
