import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';

const script = fileURLToPath(new URL('./ranks/large-model.ts', import.meta.url));
const shardwise = fileURLToPath(new URL('../packages/shardwise/src/cli/main.ts', import.meta.url));
const width = 8192;
const layerBytes = 4 * width * width;
const timeoutMs = 3_600_000;

const result = z.object({
  elements: z.number(),
  losses: z.array(z.number()).length(3),
  wrongUpdates: z.literal(0),
  peakBytes: z.number(),
  residentPeakBytes: z.number(),
});

let directory = '';
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'shardwise-large-'));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

/** Returns what each rank of a run prints about its training. */
async function ranksOf(args: readonly string[]): Promise<readonly z.infer<typeof result>[]> {
  const child = spawn(process.execPath, ['--conditions=@shardwise/source', ...args], {
    cwd: directory,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
  const [exitCode]: unknown[] = await once(child, 'close');
  expect(exitCode, output).toBe(0);
  const lines = output.match(/\{"elements.*\}/g) ?? [];
  return lines.map((line) => result.parse(JSON.parse(line)));
}

/** Returns the bytes of weights and gradients for ranks that each have a model with this number of layers. */
const statesBytes = (layers: number, ranks = 1): number => 2 * layers * layerBytes * ranks;

function hasRoomFor(bytes: number): boolean {
  return process.availableMemory() > 1.2 * bytes;
}

function expectTrained(
  { losses: [first = NaN, , third = NaN], peakBytes }: z.infer<typeof result>,
  layers: number,
): void {
  expect(third).toBeLessThan(first);
  expect(peakBytes).toBeGreaterThan(statesBytes(layers));
  // The rest of the peak memory is a few activations.
  expect(peakBytes).toBeLessThan(1.01 * statesBytes(layers));
}

describe.runIf(process.platform === 'linux')('memory of more than 4 GiB', () => {
  it.runIf(hasRoomFor(statesBytes(17)))(
    'one rank trains a model of 1.1 billion parameters in f32',
    async () => {
      const ranks = await ranksOf([script, '17', `${width}`, '10']);
      expect(ranks).toHaveLength(1);
      for (const rank of ranks) {
        expectTrained(rank, 17);
        expect(rank.elements).toBeGreaterThan(1.1e9);
        expect(rank.residentPeakBytes).toBeLessThan(1.05 * statesBytes(17));
      }
    },
    timeoutMs,
  );

  it.runIf(hasRoomFor(statesBytes(8, 2)))(
    'two threads share 8 GB, and average gradients that lie beyond 4 GiB',
    async () => {
      const ranks = await ranksOf([
        shardwise,
        'run',
        '--nproc',
        '2',
        '--plain',
        script,
        '8',
        `${width}`,
        '10',
      ]);
      expect(ranks).toHaveLength(2);
      for (const rank of ranks) {
        expectTrained(rank, 8);
        expect(rank.residentPeakBytes).toBeGreaterThan(8e9);
      }
    },
    timeoutMs,
  );

  it.runIf(hasRoomFor(statesBytes(5, 2)))(
    'two processes share 5 GB',
    async () => {
      const ranks = await ranksOf([
        shardwise,
        ...'run --nproc 2 --ranks processes --plain'.split(' '),
        script,
        ...`5 ${width} 0.5`.split(' '),
      ]);
      expect(ranks).toHaveLength(2);
      for (const rank of ranks) expectTrained(rank, 5);
    },
    timeoutMs,
  );
});
