import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { randomState, setRandomState } from '@shardwise/core';
import { onRanks } from '@shardwise/testing/node';
import { checkpoints } from 'shardwise';
import { expect } from 'vitest';
import { z } from 'zod';
import { onCpu } from '../../../test/support/on-cpu.ts';
import { fixture } from './command.ts';
import { lossesOf } from './disturbed-run.ts';
import {
  type DivisionName,
  divisions,
  lossOf,
  makeTraining,
  samplesOf,
  valuesOf,
} from './fixtures/survive-training.ts';

/** Returns the script whose ranks are lost, and its arguments. Faults are given as RANK:STEP:WHERE:HOW. */
export function survivorScript(
  {
    steps,
    pauseMs,
    folder,
    division = 'ddp',
  }: { steps: number; pauseMs: number; folder: string; division?: DivisionName },
  ...faults: readonly string[]
): readonly string[] {
  return [fixture('survive.ts'), String(steps), String(pauseMs), folder, division, ...faults];
}

/** What a rank printed of a step that was committed. */
const printedStep = z.object({
  step: z.number(),
  rank: z.number(),
  worldSize: z.number(),
  samples: z.array(z.number()),
  loss: z.number(),
});

/** What a rank printed when it began to train with others. */
const printedBeginning = z.object({
  rank: z.number(),
  worldSize: z.number(),
  start: z.number(),
  pid: z.number(),
});

/** What a rank printed when it began to compute a step. */
const printedTry = z.object({ step: z.number(), pid: z.number() });

/** The parameters with which a rank ended. */
const printedEnd = z.object({ rank: z.number(), values: z.array(z.number()) });

function printed(output: string, kind: string): readonly unknown[] {
  const lines = output.matchAll(new RegExp(`^(?:\\[rank (\\d+)\\] )?${kind} (\\{.*\\})$`, 'gm'));
  return [...lines].map(([, , text = '']): unknown => JSON.parse(text));
}

const printedRunSchema = z.object({
  beginnings: z.array(printedBeginning),
  steps: z.array(printedStep),
  tries: z.array(printedTry),
  ends: z.array(printedEnd),
});

/** What the ranks of a run printed. */
export type PrintedRun = z.infer<typeof printedRunSchema>;

export function printedRun(output: string): PrintedRun {
  return printedRunSchema.parse({
    beginnings: printed(output, 'begins'),
    steps: printed(output, 'step'),
    tries: printed(output, 'tries'),
    ends: printed(output, 'ends'),
  });
}

/** Returns the last step that a run has printed, or 0. */
export function lastStepOf({ stdout }: { readonly stdout: string }): number {
  return Math.max(0, ...printedRun(stdout).steps.map(({ step }) => step));
}

/**
 * Returns how many steps ranks have computed again at most, in one of the times that their number has changed: for each
 * process and time, from the step after which it went on to the one that it was in.
 */
export function mostRepeatedSteps({ tries }: PrintedRun): number {
  const latest = new Map<number, number>();
  let most = 0;
  for (const { step, pid } of tries) {
    most = Math.max(most, (latest.get(pid) ?? 0) - step + 1);
    latest.set(pid, step);
  }
  return most;
}

/** The ranks that were the last ones to begin to train with each other. */
export function latestMembers({ beginnings }: PrintedRun): PrintedRun['beginnings'] {
  const latest = beginnings.at(-1);
  if (latest === undefined) return [];
  const { start, worldSize } = latest;
  return beginnings
    .slice(-worldSize)
    .filter((each) => each.start === start && each.worldSize === worldSize);
}

/** How many ranks trained from a step on. */
interface Stretch {
  readonly first: number;
  readonly last: number;
  readonly worldSize: number;
}

/**
 * Returns who trained when. Ranks do not live to print a step if one of them is lost in its commit, and do not print it if
 * they go over to others there. It was then made by those who printed the step before, or who began there.
 */
export function stretchesOf({ beginnings, steps }: PrintedRun, total: number): readonly Stretch[] {
  const printedSizes = new Map(steps.map(({ step, worldSize }) => [step, worldSize]));
  const begun = new Map(beginnings.map(({ start, worldSize }) => [start + 1, worldSize]));
  const stretches: Stretch[] = [];
  for (let step = 1; step <= total; step += 1) {
    const last = stretches.at(-1);
    const worldSize = printedSizes.get(step) ?? begun.get(step) ?? last?.worldSize ?? 0;
    if (last?.worldSize === worldSize && !begun.has(step)) {
      stretches.splice(-1, 1, { ...last, last: step });
    } else stretches.push({ first: step, last: step, worldSize });
  }
  return stretches;
}

/** Does the training with the numbers of ranks that a run has had, and without a fault. Returns losses and parameters. */
async function undisturbed(
  stretches: readonly Stretch[],
  division: DivisionName = 'ddp',
): Promise<{ readonly losses: readonly number[]; readonly values: readonly number[] }> {
  const { replicaSize, axes } = divisions[division];
  const losses: number[] = [];
  let values: readonly number[] = [];
  let from: { readonly folder: string; readonly random: readonly unknown[] } | undefined;
  for (const { first, last, worldSize } of stretches) {
    const before = from;
    const folder = await mkdtemp(join(tmpdir(), 'shardwise-stretch-'));
    const ended = await onRanks(
      worldSize,
      async ({ rank, group }) => {
        const training = await makeTraining(division);
        const { model, optimizer, states } = training;
        if (before !== undefined) {
          const checkpoint = await checkpoints.load(before.folder);
          await checkpoints.loadModel(checkpoint, model);
          await checkpoints.loadOptimizer(checkpoint, model, optimizer);
          await checkpoints.loadStates(checkpoint, states);
          setRandomState(before.random[rank % replicaSize]);
        }
        const own: number[] = [];
        for (let step = first; step <= last; step += 1) {
          const loss = lossOf(training, samplesOf(step, rank, worldSize, division));
          optimizer.zeroGrad();
          loss.backward();
          await optimizer.step();
          states.schedule.step();
          const mean = Float64Array.of(await loss.item());
          await group.allReduce({ bytes: new Uint8Array(mean.buffer), dtype: 'f64' }, 'avg');
          own.push(mean[0] ?? 0);
        }
        await checkpoints.save(folder, { step: last, model, optimizer, states }, { group });
        return { losses: own, random: randomState(), values: await valuesOf(model) };
      },
      { ...onCpu, axes: axes(worldSize) },
    );
    const [one] = ended;
    if (one === undefined) throw new RangeError('no rank');
    losses.push(...one.losses);
    ({ values } = one);
    from = { folder, random: ended.map(({ random }) => random) };
  }
  return { losses, values };
}

/** Expects that a run had the losses and the parameters of one without faults and with the same numbers of ranks. */
export async function expectBits(
  found: PrintedRun,
  stretches: readonly Stretch[],
  metricsPath: string,
  division: DivisionName = 'ddp',
): Promise<void> {
  const calm = await undisturbed(stretches, division);
  for (const { step, loss } of found.steps) {
    expect(loss, `step ${step}`).toBe(calm.losses[step - 1]);
  }
  expect(found.ends.length).toBeGreaterThan(0);
  for (const { values } of found.ends) expect(values).toEqual(calm.values);
  const reported = await lossesOf(metricsPath);
  expect([...reported.values()]).toEqual(calm.losses);
}
