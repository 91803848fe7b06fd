"""Released models as public things: predicted with, saved, read back, exported."""

from dpstream.saved.model_file import load_model, save_model
from dpstream.saved.onnx_export import export_onnx
from dpstream.saved.saved_model import SavedModel

__all__ = ["SavedModel", "export_onnx", "load_model", "save_model"]
