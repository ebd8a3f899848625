import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ConfigError, data, DataError } from '@shardwise/core';
import { ImageProcessor, processImages, rowDataset } from '@shardwise/data';
import { decodeImage, loadImageProcessor, readImageFolder } from '@shardwise/data/node';
import { afterAll, describe, expect, it } from 'vitest';
import { z } from 'zod';

const base64 = z.base64().transform((text) => new Uint8Array(Buffer.from(text, 'base64')));
const file = z.object({ bytes: base64, size: z.tuple([z.int(), z.int()]), pixels: base64 });
const output = z.object({
  shape: z.array(z.int()),
  first: z.array(z.number()),
  hash: z.string(),
});
/** What Pillow and transformers make of small images. */
const golden = z
  .object({
    files: z.record(z.string(), file),
    cases: z.array(
      z.object({
        config: z.record(z.string(), z.unknown()),
        outputs: z.record(z.string(), output),
      }),
    ),
  })
  .parse(JSON.parse(readFileSync(new URL('golden/images.json', import.meta.url), 'utf8')));

function bytesOf(name: string): Uint8Array<ArrayBuffer> {
  const found = golden.files[name];
  if (found === undefined) throw new Error(`no ${name}`);
  return found.bytes;
}

const vit = {
  image_processor_type: 'ViTImageProcessor',
  size: { height: 8, width: 8 },
} as const;

describe('decodeImage', () => {
  it.each(Object.entries(golden.files))(
    'has the pixels of Pillow: %s',
    async (name, { bytes, size: [width, height], pixels }) => {
      const image = await decodeImage(bytes, { name });
      expect([image.width, image.height]).toEqual([width, height]);
      expect(Buffer.from(image.data).equals(Buffer.from(pixels))).toBe(true);
    },
  );

  it('refuses what is cut off, no image, or too large, and names the file', async () => {
    for (const name of ['rgb.png', '4-2-0.jpg']) {
      const bytes = bytesOf(name);
      for (const length of [0, 5, 40, bytes.length >> 1, bytes.length - 40]) {
        const cut = decodeImage(bytes.slice(0, length), { name: `a/${name}` });
        await expect(cut, `${name} of ${length} bytes`).rejects.toThrow(DataError);
        await expect(decodeImage(bytes.slice(0, length), { name: `a/${name}` })).rejects.toThrow(
          `a/${name}`,
        );
      }
      await expect(decodeImage(bytes, { name, maxPixels: 1000 })).rejects.toThrow(
        /at most 1000 pixels/,
      );
    }
    const picture = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>';
    await expect(decodeImage(new TextEncoder().encode(picture))).rejects.toThrow(/format svg/);
    // A header that asks for 60,000 x 60,000 pixels, and nothing behind it.
    const large = bytesOf('rgb.png').slice();
    new DataView(large.buffer).setUint32(16, 60_000);
    new DataView(large.buffer).setUint32(20, 60_000);
    await expect(decodeImage(large)).rejects.toThrow(DataError);
  });
});

describe('ImageProcessor', () => {
  const cases = golden.cases.flatMap(({ config, outputs }) =>
    Object.entries(outputs).map(
      ([name, wanted]) => [name, JSON.stringify(config), config, wanted] as const,
    ),
  );
  it.each(cases)(
    'has the values of transformers, bit for bit: %s by %s',
    async (name, _text, config, { shape, first, hash }) => {
      const processor = ImageProcessor.fromJson(config);
      const values = processor.process(await decodeImage(bytesOf(name)));
      expect(values.shape).toEqual(shape);
      expect(Array.from(values.data.slice(0, first.length))).toEqual(first);
      expect(createHash('sha256').update(values.data).digest('hex')).toBe(hash);
    },
  );

  it('refuses what it would do in another way, and names the key', () => {
    const refusals = {
      image_processor_type: 'CLIPImageProcessor',
      do_pad: true,
      do_flip: true,
      size: { longest_edge: 9 },
      resample: 6,
      crop_pct: 0.5,
      image_mean: [0.5],
      image_std: [1, 0, 1],
      rescale_factor: 0,
    };
    for (const [key, value] of Object.entries(refusals)) {
      const make = (): ImageProcessor => ImageProcessor.fromJson({ ...vit, [key]: value });
      expect(make, key).toThrow(ConfigError);
      expect(make).toThrow(key);
    }
    expect(() => ImageProcessor.fromJson({ ...vit, do_center_crop: true })).toThrow(/crop_size/);
    expect(() => ImageProcessor.fromJson({})).toThrow(ConfigError);
  });

  it('refuses to make an image of gigabytes of a thin one', () => {
    const processor = ImageProcessor.fromJson({ ...vit, size: { shortest_edge: 1000 } });
    const thin = { width: 1, height: 100_000, data: new Uint8Array(300_000) };
    expect(() => processor.process(thin)).toThrow(/100000000 x 1000 pixels/);
  });
});

describe('processImages', () => {
  const folder = mkdtempSync(join(tmpdir(), 'images-'));
  afterAll(() => rmSync(folder, { recursive: true }));

  it('makes samples of a folder, and names the file that it cannot decode', async () => {
    for (const [name, from] of [
      ['cat/a.png', 'rgb.png'],
      ['cat/b.jpg', 'gray.jpg'],
      ['dog/c.png', 'palette.png'],
    ] as const) {
      mkdirSync(join(folder, 'train', name, '..'), { recursive: true });
      writeFileSync(join(folder, 'train', name), bytesOf(from));
    }
    writeFileSync(join(folder, 'train/dog/d.png'), bytesOf('rgb.png').slice(0, 100));
    await expect(loadImageProcessor(folder)).rejects.toThrow(DataError);
    writeFileSync(join(folder, 'preprocessor_config.json'), JSON.stringify(vit));
    const processor = await loadImageProcessor(folder);
    const images = await readImageFolder(join(folder, 'train'));
    const rows = processImages(images, { processor, decode: decodeImage });
    const dataset = rowDataset(rows, (sample) => sample);
    const loader = new data.DataLoader({ dataset, batchSize: 2 });
    const batches = loader[Symbol.asyncIterator]();
    const { value } = await batches.next();
    expect(value?.pixelValues.shape).toEqual([2, 3, 8, 8]);
    expect(Array.from(value?.labels.data ?? [])).toEqual([0, 0]);
    await expect(batches.next()).rejects.toThrow(join(folder, 'train/dog/d.png'));
  });
});
