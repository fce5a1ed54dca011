"""Contact sheets: a scene on one picture, for a person to look at.

Frames of both videos, one row each, and every question pair with its truths. They are read from the
files of a data set folder, so that they show what a model is given.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from cctv.data import video

Array = np.ndarray

WIDTH = 300  # pixels of a frame on the sheet
_GAP, _LINE, _COLUMNS = 6, 20, (6, 44, 78, 106)
_INK, _PAPER, _QUIET = (20, 20, 24), (255, 255, 255), (105, 105, 112)
_TRUE, _FALSE = (16, 120, 50), (150, 30, 30)


def write_sheet(folder: Path, record: dict[str, Any]) -> Path:
    """Writes folder/sheets/ID.png of one line of scenes.jsonl, if it is not there yet."""
    path = folder / "sheets" / f"{record['scene_id']}.png"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        part = path.with_name(f".{path.name}.tmp")
        draw_sheet(folder, record).save(part, "png", compress_level=4)
        part.replace(path)
    return path


def draw_sheet(folder: Path, record: dict[str, Any]) -> Image.Image:
    """The sheet of one line of scenes.jsonl."""
    info = video.probe(folder / record["videos"]["positive"])
    moments = _moments(record, info.times)
    frames = {
        side: video.read_frames(folder / name, [k for k, _ in moments])
        for side, name in record["videos"].items()
    }
    height = round(WIDTH * info.height / info.width)
    words, lines = _caption(record), _questions(record)
    top = _LINE * (len(words) + 1) + 2 * _GAP
    size = (
        len(moments) * (WIDTH + _GAP) + _GAP,
        top + 2 * (height + _LINE + _GAP) + _LINE * (len(lines) + 1),
    )
    sheet = Image.new("RGB", size, _PAPER)
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(15)
    for k, text in enumerate(words):
        draw.text((_GAP, _GAP + k * _LINE), text, _INK, font)
    for column, (k, label) in enumerate(moments):
        x = _GAP + column * (WIDTH + _GAP)
        draw.text((x, top - _LINE), f"{info.times[k]:.2f} s  {label}", _QUIET, font)
        for row, (side, mark) in enumerate((("positive", "v+"), ("negative", "v-"))):
            y = top + row * (height + _LINE + _GAP)
            frame = Image.fromarray(frames[side][column])
            sheet.paste(frame.resize((WIDTH, height), Image.Resampling.BICUBIC), (x, y))
            draw.text((x, y + height), mark, _QUIET, font)
    y = top + 2 * (height + _LINE + _GAP)
    for k, (words, ink) in enumerate(lines):
        for x, text in zip(_COLUMNS, words):
            draw.text((x, y + k * _LINE), text, ink, font)
    return sheet


def _moments(record: dict[str, Any], times: Array) -> list[tuple[int, str]]:
    """Frames to show: around the branch and the contact, and the ends."""
    branch, contact = record["split_time"], record["metadata"]["contact"]["time"]
    wanted = (
        (0.0, "start"),
        (branch, "branch"),
        ((branch + contact) / 2, ""),
        (contact, "contact of v+"),
        (contact + 0.5, ""),
        (float(times[-1]), "end"),
    )
    # The first frame at or after each instant.
    last = len(times) - 1
    return [(min(math.ceil(np.searchsorted(times, t - 1e-6)), last), label) for t, label in wanted]


def _caption(record: dict[str, Any]) -> list[str]:
    log = record["metadata"]
    names = _names(log)
    cause, change = log["cause"], log["intervention"]
    ego = "" if log["ego"] is None else f"; the camera rides in {names[log['ego']]}"
    return [
        f"{record['scene_id']}: {log['kind']}, {log['view']} view, {log['layout']['type']},"
        f" {log['look']['kind']}, {log['difficulty']['name']}{ego}",
        f"contact at {log['contact']['time']:.2f} s; cause: {cause['kind']} by"
        f" {names[cause['actor']]}; v- from {log['branch']:.2f} s: {names[change['actor']]}"
        f" ({change['kind']})",
    ]


def _names(log: dict[str, Any]) -> dict[int, str]:
    """Id -> words for every actor."""
    return {a["id"]: f"the {a['colour']} {a['type']}" for a in log["actors"]}


def _questions(record: dict[str, Any]) -> list[tuple[tuple[str, ...], tuple[int, int, int]]]:
    """Lines of four columns and their inks: q+ is Yes on v+ only, q- is No on both."""
    lines = [(("v+", "v-", "", ""), _QUIET)]
    for q in record["questions"]:
        lines.append((("Yes", "No", "q+", f"{q['positive']}  [{q['category']}]"), _TRUE))
        lines.append((("No", "No", "q-", q["negative"]), _FALSE))
    return lines
