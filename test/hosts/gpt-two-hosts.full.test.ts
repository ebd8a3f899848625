import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createHosts } from '@shardwise/testing/hosts';
import { checkpoints } from 'shardwise';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { Ended } from '../support/run-command.ts';
import { titled, unavailable } from './availability.ts';
import { GptRuns } from './gpt-runs.ts';

const STEPS = 8;

const metricsSchema = z.object({
  step: z.number(),
  loss: z.number(),
  tokens: z.number(),
  validationLoss: z.number().optional(),
});

describe.skipIf(unavailable !== undefined)(titled('the GPT example on 2 hosts x 2 ranks'), () => {
  let runs: GptRuns;
  let one: Ended;
  let two: readonly Ended[] = [];

  beforeAll(async () => {
    const steps = ['--steps', String(STEPS), '--validate-every', '4', '--sample-bytes', '8'];
    runs = await GptRuns.create(steps);
    one = await runs.onOneHost('one-host');
    await using made = await createHosts(2);
    two = await Promise.all(runs.onHosts(made.hosts, 'two-hosts'));
  }, 120_000);

  afterAll(() => runs[Symbol.asyncDispose]());

  /** Returns the metrics of each step of a run, without times. */
  const metricsOf = async (
    runDirectory: string,
  ): Promise<readonly z.infer<typeof metricsSchema>[]> => {
    const lines = await readFile(join(runs.directory, runDirectory, 'metrics.jsonl'), 'utf8');
    return lines
      .trim()
      .split('\n')
      .map((line) => metricsSchema.parse(JSON.parse(line)));
  };

  it('ends well on both hosts', () => {
    for (const run of [one, ...two]) expect(run.exitCode, run.output).toBe(0);
    expect(two).toHaveLength(2);
  });

  it('learns in each step what 4 ranks of one host learn, to the last bit', async () => {
    const metrics = await metricsOf('two-hosts');
    expect(metrics).toHaveLength(STEPS);
    expect(metrics).toEqual(await metricsOf('one-host'));
  });

  it.each(['model', 'optimizer'] as const)('leaves the same %s in the checkpoint', async (kind) => {
    const [there, here] = await Promise.all(
      ['two-hosts', 'one-host'].map(async (run) => {
        const { [kind]: tensors } = await checkpoints.load(join(runs.directory, run));
        return Promise.all(tensors.names.map((name) => tensors.read(name)));
      }),
    );
    expect(there?.length).toBeGreaterThan(0);
    expect(there).toEqual(here);
  });
});
