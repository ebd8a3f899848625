import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { z } from 'zod';
import type { LongSettings } from './long-settings.ts';

const run = promisify(execFile);

const longStep = z.object({
  ms: z.number(),
  /** The processor time of all ranks. */
  processorMs: z.number(),
  loss: z.number(),
  bytes: z.number(),
  /** The highest resident memory of the process with all ranks, until the end of the step. */
  peakBytes: z.number(),
});
type LongStep = z.infer<typeof longStep>;

/** Trains for some steps on one sequence, in a process of its own. Returns what each step took. */
export async function trainOnLongSequence(
  ranks: number,
  steps: number,
  settings: LongSettings,
): Promise<readonly LongStep[]> {
  const script = fileURLToPath(new URL('./long-run.ts', import.meta.url));
  const { stdout } = await run(
    process.execPath,
    [
      '--conditions=@shardwise/source',
      script,
      String(ranks),
      String(steps),
      JSON.stringify(settings),
    ],
    { env: { ...process.env, NODE_OPTIONS: '' } },
  );
  return stdout
    .trim()
    .split('\n')
    .map((line) => longStep.parse(JSON.parse(line)));
}
