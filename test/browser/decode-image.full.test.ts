import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openPage, reasonWithoutBrowser } from '@shardwise/testing/node';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { repository } from '../support/documents.ts';
import { buildPage } from './build-page.ts';
import type { EncodedImage } from './images-page/images.ts';
import { serveFolder } from './serve-folder.ts';

const file = z.object({ bytes: z.string(), size: z.tuple([z.int(), z.int()]), pixels: z.string() });
/** What Pillow makes of small images. */
const { files } = z
  .object({ files: z.record(z.string(), file) })
  .parse(
    JSON.parse(readFileSync(join(repository, 'packages/data/test/golden/images.json'), 'utf8')),
  );
const decoded = z.union([
  z.object({
    name: z.string(),
    width: z.int(),
    height: z.int(),
    pixels: z.array(z.int()).transform((pixels) => Uint8Array.from(pixels)),
  }),
  z.object({ name: z.string(), error: z.string() }),
]);
const results = z.array(z.object({ page: decoded, worker: decoded }));

const reason = reasonWithoutBrowser();
const title = 'decodeImage of a page, and of its workers';
describe.skipIf(reason !== undefined)(reason === undefined ? title : `${title}: ${reason}`, () => {
  const folder = mkdtempSync(join(tmpdir(), 'shardwise-images-'));
  beforeAll(() => buildPage(join(import.meta.dirname, 'images-page'), folder));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const decode = async (tasks: readonly EncodedImage[]): Promise<z.infer<typeof results>> => {
    await using server = await serveFolder(folder, { isolated: true, tasks });
    await using _page = openPage(server.url);
    return results.parse(await server.result);
  };

  it('has the pixels of Pillow, and about those where an image is transparent', async () => {
    const found = await decode(
      Object.entries(files).map(([name, { bytes }]) => ({ name, base64: bytes })),
    );
    expect(found).toHaveLength(Object.keys(files).length);
    for (const { page, worker } of found) {
      if ('error' in page || 'error' in worker) expect.fail(JSON.stringify(page));
      expect(worker).toEqual(page);
      const { name, width, height, pixels } = page;
      const { size, pixels: expected } = files[name] ?? expect.fail(name);
      expect([width, height], name).toEqual(size);
      const wanted = new Uint8Array(Buffer.from(expected, 'base64'));
      expect(pixels, name).toHaveLength(wanted.length);
      const distances = pixels.map((value, at) => Math.abs(value - (wanted[at] ?? NaN)));
      if (name !== 'rgba.png') expect(Math.max(...distances), name).toBe(0);
      // A canvas multiplies colors by their opacity, so those that are nearly transparent lose their last bits.
      else expect(distances.filter((distance) => distance > 3).length).toBeLessThan(30);
    }
  }, 120_000);

  it('refuses what is cut off, no image, or too large, and names the file', async () => {
    const whole = files['rgb.png'] ?? expect.fail();
    const found = await decode([
      { name: 'a/empty.png', base64: '' },
      { name: 'a/text.png', base64: btoa('no image') },
      { name: 'a/head.png', base64: whole.bytes.slice(0, 40) },
      { name: 'a/large.png', base64: whole.bytes, maxPixels: 1000 },
    ]);
    for (const { page, worker } of found) {
      expect(worker).toEqual(page);
      expect('error' in page && page.error).toContain(page.name);
    }
    expect(found.at(-1)?.page).toMatchObject({
      error: expect.stringMatching(/at most 1000 pixels/),
    });
  }, 120_000);
});
