"""The README's figure: one pair of each kind of accident, at the contact of v+.

    python -m experiments.world.figure [--out=experiments/world/pairs.png]

Left the video with the accident, right the same instant without it. Both views, all weathers.
"""

from pathlib import Path

from absl import flags

from cctv import cli

OUT = flags.DEFINE_string("out", "experiments/world/pairs.png", "PNG file to write")
SEED, INDICES = 1, (6, 1, 26, 33, 52, 47)
FRAME, LINE, GAP, AFTER = (304, 171), 18, 4, 0.06  # AFTER: seconds after the contact


def main(argv: list[str]) -> None:
    cli.no_more(argv)
    from PIL import Image, ImageDraw, ImageFont

    from cctv.world.render import render
    from cctv.world.scene import draw_scene

    width, height = FRAME
    cell = (2 * width + 2 * GAP, height + LINE + GAP)
    page = Image.new("RGB", (2 * cell[0] + GAP, 3 * cell[1]), (255, 255, 255))
    draw, font = ImageDraw.Draw(page), ImageFont.load_default(13)
    for k, index in enumerate(INDICES):
        scene = draw_scene(SEED, index)
        cast, time = scene.pair.cast, scene.pair.positive.contact.time + AFTER
        x, y = k % 2 * (cell[0] + GAP), k // 2 * cell[1]
        words = (cast.kind, f"{scene.view} view", scene.look.kind, f"cause {cast.cause}")
        text = f"{', '.join(words)}; v-: {scene.pair.intervention.kind}".replace("_", " ")
        draw.text((x + 2, y), text, (20, 20, 24), font)
        for i, shot in enumerate((scene.positive, scene.negative)):
            frame = Image.fromarray(render(shot, time, (2 * width, 2 * height)))
            frame = frame.resize(FRAME, Image.Resampling.LANCZOS)
            page.paste(frame, (x + i * (width + GAP // 2), y + LINE))
    page = page.point(lambda v: (v & 0xF8) | 4)  # 5 bits a colour: a small file
    page.save(Path(OUT.value), "png", optimize=True)


if __name__ == "__main__":
    cli.run(main, usage=__doc__)
