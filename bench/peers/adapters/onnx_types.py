# SPDX-License-Identifier: MIT
"""ONNX models with weights of fewer bits, made from those of onnx_graph.

    dynamic     onnxruntime.quantization.quantize_dynamic: weights s8 with a scale for each column, operands u8 with one for the
                whole tensor, found in each call (MatMulInteger, QAttention)
    nbits8      MatMulNBits: weights of 8 or 4 bits with a scale for each 32 rows of a column; accuracy_level 4: operands become
    nbits4      int8 as well
"""
import os
import tempfile

import numpy as np

GROUP = 32


def dynamic(model):
    """A model's bytes, quantised."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic
    with tempfile.TemporaryDirectory() as folder:
        source, to = os.path.join(folder, "f32.onnx"), os.path.join(folder, "i8.onnx")
        onnx.save(onnx.load_from_string(model), source)
        quantize_dynamic(source, to, per_channel=True, weight_type=QuantType.QInt8,
                         extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT})  # behind operators of com.microsoft
        with open(to, "rb") as file:
            return file.read()


def _packed(w, bits):
    """B [columns][groups][bytes] and scales [columns * groups] of a matrix [rows][columns]: w = s (q - half)."""
    rows, columns = w.shape
    half = 1 << (bits - 1)
    groups = w.T.reshape(columns, rows // GROUP, GROUP).astype(np.float64)
    at = np.abs(groups).argmax(-1)[..., None]
    scale = np.take_along_axis(groups, at, -1) / -half  # the largest becomes -half, as in ggml
    whole = np.where(scale == 0, 0, groups / np.where(scale == 0, 1, scale))
    q = np.clip(np.rint(whole) + half, 0, 2 * half - 1).astype(np.uint8)
    if bits == 4:
        q = q[..., 0::2] | q[..., 1::2] << 4
    return np.ascontiguousarray(q), scale.astype(np.float32).reshape(-1)


def nbits(model, bits):
    """The same, each product with a constant matrix a MatMulNBits."""
    import onnx
    model = onnx.load_from_string(model)
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type != "MatMul" or node.input[1] not in constants:
            continue
        tensor = constants[node.input[1]]
        w = onnx.numpy_helper.to_array(tensor)
        packed, scales = _packed(w, bits)
        model.graph.initializer.remove(tensor)
        names = [tensor.name + "_q", tensor.name + "_s"]
        model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for array, name in zip((packed, scales), names))
        new = onnx.helper.make_node("MatMulNBits", [node.input[0], *names], node.output, domain="com.microsoft", K=w.shape[0],
                                    N=w.shape[1], bits=bits, block_size=GROUP, accuracy_level=4)
        node.CopyFrom(new)
    if all(opset.domain != "com.microsoft" for opset in model.opset_import):
        model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    return model.SerializeToString()


def quantized(model, how):
    return dynamic(model) if how == "dynamic" else nbits(model, int(how[-1]))
