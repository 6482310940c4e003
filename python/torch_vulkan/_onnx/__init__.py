"""What tv.onnx needs beside an engine."""
