import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import sharp from 'sharp';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { runShardwise } from '../../../test/support/run-shardwise.ts';

const program = join(import.meta.dirname, '../examples/terminal/fine-tune-images.ts');
const folder = mkdtempSync(join(tmpdir(), 'image-program-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** Stripes of random width, place and colors, of the class `across` or `down`. */
async function writeStripes(name: 'across' | 'down', index: number): Promise<void> {
  const [width, height] = [24 + index, 30 - (index % 7)];
  const period = 6 + (index % 5);
  const pixels = Uint8Array.from({ length: width * height * 3 }, (_, i) => {
    const [x, y] = [Math.floor(i / 3) % width, Math.floor(i / 3 / width)];
    const place = (name === 'across' ? y : x) + index;
    return place % period < period / 2 ? 200 - 3 * index : 30 + 5 * (i % 3) + index;
  });
  const image = sharp(pixels, { raw: { width, height, channels: 3 } });
  const isPng = index % 2 === 0;
  await (isPng ? image.png() : image.jpeg()).toFile(
    join(folder, 'train', name, `${index}.${isPng ? 'png' : 'jpg'}`),
  );
}

beforeAll(async () => {
  for (const name of ['across', 'down'] as const) {
    mkdirSync(join(folder, 'train', name), { recursive: true });
    for (let index = 0; index < 20; index++) await writeStripes(name, index);
  }
});

test('the program for folders of images learns two classes on two ranks', async () => {
  const args = ['run', '--plain', '--no-report', '--nproc', '2', program, join(folder, 'train')];
  const { exitCode, stdout, output } = await runShardwise(args, { cwd: folder });
  expect(exitCode, output).toBe(0);
  const [, percent] = /across or down: (\d+) % right/.exec(stdout) ?? [];
  expect(Number(percent), stdout).toBeGreaterThanOrEqual(90); // 50 without training
});
