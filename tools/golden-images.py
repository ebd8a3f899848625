"""Records how transformers prepares images, which packages/data/test/images.test.ts compares with.

Run from the repository root, with transformers 5.24 and Pillow 12.3 (Pillow 13 resizes some tall images along columns first):

    python tools/golden-images.py

It rewrites packages/data/test/golden/images.json: small files in several formats, the pixels that Pillow decodes of them
(`load_image`, so with the orientation of EXIF and in RGB), and, for several preprocessor_config.json, the first pixel
values and the SHA-256 of all values of the image processor that computes with Pillow and NumPy.
"""

import base64
import hashlib
import io
import json
import pathlib

import numpy
from PIL import Image
from transformers.image_utils import load_image
from transformers.models.convnext.image_processing_pil_convnext import ConvNextImageProcessorPil
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

OUTPUT = pathlib.Path(__file__).parents[1] / "packages/data/test/golden/images.json"
random = numpy.random.default_rng(0)


def picture(height, width):
    """Waves of colours with noise: it has edges, gradients and saturated places."""
    y, x = numpy.mgrid[0:height, 0:width]
    waves = [numpy.sin(x / 3 + y / 7), numpy.cos(y / 2 - x / 9), numpy.sign(numpy.sin(x * y / 40))]
    image = 128 + 120 * numpy.stack(waves, -1) + random.normal(0, 12, (height, width, 3))
    return Image.fromarray(image.clip(0, 255).astype(numpy.uint8))


def file(image, form, **options):
    stream = io.BytesIO()
    image.save(stream, form, **options)
    return stream.getvalue()


def base64_of(data):
    return base64.b64encode(data).decode()


orientation = Image.Exif()
orientation[0x0112] = 6
transparent = picture(9, 14)
transparent.putalpha(Image.fromarray(random.integers(0, 256, (9, 14), dtype=numpy.uint8)))

FILES = {
    "rgb.png": file(picture(37, 52), "PNG"),
    "tall.png": file(picture(41, 19), "PNG"),
    "rgba.png": file(transparent, "PNG"),
    "gray.png": file(picture(12, 17).convert("L"), "PNG"),
    "palette.png": file(picture(11, 23).quantize(16), "PNG"),
    "4-2-0.jpg": file(picture(33, 45), "JPEG", quality=85, subsampling=2),
    "4-4-4.jpg": file(picture(24, 31), "JPEG", quality=95, subsampling=0),
    "progressive.jpg": file(picture(30, 26), "JPEG", quality=80, progressive=True),
    "gray.jpg": file(picture(21, 18).convert("L"), "JPEG"),
    "turned.jpg": file(picture(16, 28), "JPEG", exif=orientation),
}

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
CONFIGS = [
    # The files of google/vit-base-patch16-224 and microsoft/resnet-50, with smaller sizes.
    {"do_normalize": True, "do_resize": True, "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "size": 16,
     "image_processor_type": "ViTFeatureExtractor"},
    {"crop_pct": 0.875, "do_normalize": True, "do_resize": True, "feature_extractor_type": "ConvNextFeatureExtractor",
     "image_mean": MEAN, "image_std": STD, "resample": 3, "size": 14},
    {"image_processor_type": "ConvNextImageProcessor", "size": {"shortest_edge": 400}, "crop_size": None,
     "only": "gray.jpg"},
    *[
        {"image_processor_type": "ViTImageProcessor", "size": {"height": 15, "width": 22}, "resample": resample,
         "image_mean": MEAN, "image_std": STD, "rescale_factor": 1 / 255}
        for resample in range(6)
    ],
    # Larger than most of the images, and crops of what is larger or smaller.
    {"image_processor_type": "ViTImageProcessor", "size": {"shortest_edge": 20}, "do_center_crop": True,
     "crop_size": {"height": 25, "width": 18}, "resample": 1, "do_normalize": False},
    {"image_processor_type": "ViTImageProcessor", "do_resize": False, "do_center_crop": True, "crop_size": 16,
     "do_rescale": False, "image_mean": [100, 120, 140], "image_std": 50},
]


def processed(config, images):
    config = dict(config)
    only = config.pop("only", None)
    kind = config.get("image_processor_type", config.get("feature_extractor_type"))
    processor = (ViTImageProcessorPil if kind.startswith("ViT") else ConvNextImageProcessorPil).from_dict(config)
    names = [only] if only else list(images)
    outputs = {}
    for name in names:
        values = processor(images[name], return_tensors="np")["pixel_values"][0].astype("<f4")
        hash = hashlib.sha256(values.tobytes()).hexdigest()
        outputs[name] = {"shape": values.shape, "first": values.ravel()[:4].tolist(), "hash": hash}
    return {"config": config, "outputs": outputs}


images = {}
for name, data in FILES.items():
    path = pathlib.Path("/tmp") / f"golden-{name}"
    path.write_bytes(data)
    images[name] = load_image(str(path))
    path.unlink()
OUTPUT.write_text(
    json.dumps(
        {
            "files": {
                name: {
                    "bytes": base64_of(data),
                    "size": images[name].size,
                    "pixels": base64_of(numpy.asarray(images[name]).tobytes()),
                }
                for name, data in FILES.items()
            },
            "cases": [processed(config, images) for config in CONFIGS],
        }
    )
    + "\n"
)
