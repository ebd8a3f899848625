import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createHosts, type LinkTraffic } from '@shardwise/testing/hosts';
import { checkpoints } from 'shardwise';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { Ended } from '../support/run-command.ts';
import { titled, unavailable } from './availability.ts';
import { runShardwise } from '../support/run-shardwise.ts';
import { GptRuns } from './gpt-runs.ts';

const STEPS = 8;

const metricsSchema = z.object({
  step: z.number(),
  loss: z.number(),
  tokens: z.number(),
  validationLoss: z.number().optional(),
});

const trafficSchema = z.object({ sentBytes: z.number(), receivedBytes: z.number() });

describe.skipIf(unavailable !== undefined)(titled('the GPT example on 2 hosts x 2 ranks'), () => {
  let runs: GptRuns;
  let one: Ended;
  let two: readonly Ended[] = [];
  /** `shardwise top` on a third host. */
  let top: Ended | undefined;
  let traffic: readonly LinkTraffic[] = [];

  beforeAll(async () => {
    const steps = ['--steps', String(STEPS), '--validate-every', '4', '--sample-bytes', '8'];
    runs = await GptRuns.create(steps);
    one = await runs.onOneHost('one-host');
    await using made = await createHosts(3);
    const [first, second, third] = made.hosts;
    if (first === undefined || second === undefined || third === undefined) return;
    const watching = Promise.withResolvers<Ended>();
    const watch = (): void =>
      watching.resolve(
        runShardwise(['top', `${first.address}:29400`, '--page', 'top.html'], {
          cwd: runs.directory,
          host: third,
          variables: { SHARDWISE_SECRET: 'the secret of a test' },
        }),
      );
    const when = { prints: 'transport:', act: watch };
    two = await Promise.all(runs.onHosts([first, second], 'two-hosts', { when }));
    traffic = await Promise.all([first.traffic(), second.traffic()]);
    top = await watching.promise;
  }, 120_000);

  afterAll(() => runs[Symbol.asyncDispose]());

  /** Returns what a schema takes of the metrics of each step of a run. */
  const metricsOf = async <T>(
    runDirectory: string,
    schema: z.ZodType<T>,
  ): Promise<readonly T[]> => {
    const lines = await readFile(join(runs.directory, runDirectory, 'metrics.jsonl'), 'utf8');
    return lines
      .trim()
      .split('\n')
      .map((line) => schema.parse(JSON.parse(line)));
  };

  it('ends well on both hosts', () => {
    for (const run of [one, ...two]) expect(run.exitCode, run.output).toBe(0);
    expect(two).toHaveLength(2);
  });

  it('learns in each step what 4 ranks of one host learn, to the last bit', async () => {
    const metrics = await metricsOf('two-hosts', metricsSchema);
    expect(metrics).toHaveLength(STEPS);
    expect(metrics).toEqual(await metricsOf('one-host', metricsSchema));
  });

  it('is shown on a third host until it is over, by the names of its hosts', () => {
    expect(top?.exitCode, top?.output).toBe(0);
    expect(top?.stdout).toMatch(/train\.ts on 4 ranks of 2 hosts/);
    expect(top?.stdout).toMatch(/^state {4}finished/m);
    expect(top?.stdout).toMatch(new RegExp(`^step {5}${STEPS}/${STEPS} `, 'm'));
    for (const rank of [0, 1, 2, 3]) {
      const host = rank < 2 ? 'host0' : 'host1';
      expect(top?.stdout).toMatch(new RegExp(`^ +${rank} +${host} +${STEPS} .* ended$`, 'm'));
    }
  });

  it('counts the bytes that the links between the hosts have carried', async () => {
    const metrics = await metricsOf('two-hosts', trafficSchema);
    for (const name of ['sentBytes', 'receivedBytes'] as const) {
      const counted = metrics.reduce((sum, step) => sum + step[name], 0);
      const carried = traffic.reduce((sum, link) => sum + link[name], 0);
      // The links also carry the frames around messages, heartbeats, and what the launchers say.
      expect(counted).toBeLessThan(carried);
      expect(counted).toBeGreaterThan(carried / 2);
    }
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
