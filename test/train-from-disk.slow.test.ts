import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, rm, statfs } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { z } from 'zod';

// SHARDWISE_OFFLOAD_LAYERS=75 trains states of 20 GB (bench/README.md records what that took).
// SHARDWISE_OFFLOAD_DIRECTORY says where they are kept.

const size = 2;
const layers = Number(process.env['SHARDWISE_OFFLOAD_LAYERS'] ?? 10);
const width = 4096;
const elements = layers * (width * width + width);
/** The bytes of parameters, gradients and two moments in f32 on all ranks. */
const statesBytes = 16 * elements;
const gibibyte = 1024 ** 3;
const limitBytes = 8e9;
const timeoutMs = 7_200_000;

const result = z.object({
  elements: z.literal(elements),
  losses: z.array(z.number()).length(3),
  peakBytes: z.number(),
  residentPeakBytes: z.number(),
});

it(
  `${size} processes train a model of ${(statesBytes / 1e9).toFixed(1)} GB of states from the disk`,
  async () => {
    const parent = process.env['SHARDWISE_OFFLOAD_DIRECTORY'] ?? tmpdir();
    const directory = await mkdtemp(join(parent, 'shardwise-offload-'));
    try {
      const { bavail, bsize } = await statfs(directory);
      expect(bavail * bsize).toBeGreaterThan(statesBytes);
      const port = await freePort();
      const outputs = await Promise.all(
        Array.from({ length: size }, (_, rank) => train(directory, rank, port)),
      );
      // The output is recorded in bench/README.md.
      console.log(outputs.join('\n'));
      const ranks = outputs.map((output) => result.parse(JSON.parse(output)));
      for (const { losses, residentPeakBytes, peakBytes } of ranks) {
        const [first = NaN, , third = NaN] = losses;
        expect(third).toBeLessThan(first);
        expect(residentPeakBytes).toBeLessThan(limitBytes);
        // The device holds the gradients and a few layers. Tensors that are in files are not on the device as well.
        const expected = statesBytes / 4 / size + 8 * 4 * width * width + gibibyte / 4;
        expect(peakBytes).toBeLessThan(expected);
      }
      expect(await readdir(directory)).toEqual(['runs']);
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  },
  timeoutMs,
);

/**
 * Trains a rank in a process of its own, so that its resident memory is its own. Returns the last line that it prints.
 */
async function train(directory: string, rank: number, port: number): Promise<string> {
  const script = fileURLToPath(new URL('./ranks/train-from-disk.ts', import.meta.url));
  const child = spawn(
    process.execPath,
    ['--conditions=@shardwise/source', script, directory, String(layers), String(width)],
    {
      cwd: directory,
      stdio: ['ignore', 'pipe', 'inherit'],
      env: {
        ...process.env,
        RANK: String(rank),
        WORLD_SIZE: String(size),
        LOCAL_RANK: String(rank),
        LOCAL_WORLD_SIZE: String(size),
        MASTER_ADDR: '127.0.0.1',
        MASTER_PORT: String(port),
        SHARDWISE_SECRET: 'a secret of this test alone',
      },
    },
  );
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
  const [exitCode]: unknown[] = await once(child, 'close');
  expect(exitCode, output).toBe(0);
  return (
    output
      .trimEnd()
      .split('\n')
      .findLast((line) => line.startsWith('{')) ?? ''
  );
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  return typeof address === 'object' && address !== null ? address.port : 0;
}
