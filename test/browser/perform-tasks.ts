import { join } from 'node:path';
import { wasm } from '@shardwise/backend-cpu/wasm';
import { manualSeed, nn, optim, setRank } from '@shardwise/core';
import { openPage, reasonWithoutBrowser } from '@shardwise/testing/node';
import { beforeAll, describe, expect } from 'vitest';
import { z } from 'zod';
import { oncePerRun } from '../support/once-per-run.ts';
import { buildPage } from './build-page.ts';
import { batch, Classifier, rowsOf } from './page/classifier.ts';
import type { Task } from './page/task.ts';
import { serveFolder } from './serve-folder.ts';

export const STEPS = 12;

const reports = z.array(
  z.object({
    transport: z.string(),
    transportReason: z.string(),
    device: z.string(),
    deviceReason: z.string(),
    losses: z.array(z.array(z.number())),
    ends: z.array(
      z.object({
        status: z.string(),
        name: z.string().optional(),
        message: z.string().optional(),
        abortedBy: z.int().optional(),
      }),
    ),
    report: z.object({ steps: z.int(), loss: z.number().optional(), html: z.string() }),
    stored: z.array(z.string()),
    archive: z.object({ name: z.string(), bytes: z.array(z.int()) }).optional(),
    heard: z.array(z.object({ step: z.int(), directory: z.string() })),
    endedAfterMs: z.number(),
  }),
);
export type Reports = z.infer<typeof reports>;

export const task = (changes: Partial<Task>): Task => ({
  size: 2,
  strategy: 'ddp',
  device: 'wasm',
  steps: STEPS,
  act: 'nothing',
  ...changes,
});
/** A number of steps that no test waits for. */
export const forEver = 1_000_000;

/** The model that the ranks of a page train, on one rank in Node. */
export interface OneRank {
  readonly model: Classifier;
  readonly optimizer: optim.AdamW;
}

export async function oneRank(): Promise<OneRank> {
  setRank({ device: await wasm({ byteLength: 2 ** 24 }) });
  manualSeed(1);
  const model = new Classifier();
  return { model, optimizer: new optim.AdamW(model.parameters(), { lr: 1e-2 }) };
}

/** Returns the losses of one rank that computes all rows in Node. */
export async function lossesOfOneRank(): Promise<number[]> {
  return trainOneRank(await oneRank(), 1, STEPS);
}

/** Returns the losses of steps `first` to `last`. */
export async function trainOneRank(
  { model, optimizer }: OneRank,
  first: number,
  last: number,
): Promise<number[]> {
  const losses: number[] = [];
  for (let step = first; step <= last; step++) {
    optimizer.zeroGrad();
    const { x, labels } = rowsOf(step, 0, batch);
    const loss = nn.functional.crossEntropy(model.forward(x), labels);
    loss.backward();
    await optimizer.step();
    losses.push(await loss.item());
  }
  return losses;
}

/** Returns the mean over the ranks of the losses of each step. */
function meanLosses(losses: Reports[number]['losses']): number[] {
  const [first = []] = losses;
  return first.map((_, step) => {
    const ofStep = losses.map((ofRank) => ofRank[step] ?? Number.NaN);
    return ofStep.reduce((sum, loss) => sum + loss, 0) / losses.length;
  });
}

/** Expects that every rank has closed, and that the losses from step `first` on are those of one rank. */
export function expectLosses(
  { losses, ends }: Reports[number],
  expected: readonly number[],
  first = 1,
): void {
  expect(ends.map(({ status, message }) => message ?? status)).toEqual(losses.map(() => 'closed'));
  for (const [step, loss] of meanLosses(losses).entries()) {
    expect(loss).toBeCloseTo(expected[step + first - 1] ?? Number.NaN, 4);
  }
  expect(losses.map(({ length }) => length)).toEqual(losses.map(() => STEPS - first + 1));
}

export interface PageOptions {
  readonly isolated?: boolean;
  readonly withWebGpu?: boolean;
}

/** Makes a page in a browser carry out tasks, one after another. */
export type PerformTasks = (tasks: readonly Task[], options?: PageOptions) => Promise<Reports>;

/**
 * Runs tests of a built page in the installed Chromium. If there is none, the tests are skipped and the reason is
 * given.
 */
export function describePage(title: string, tests: (perform: PerformTasks) => void): void {
  const reason = reasonWithoutBrowser();
  const name = reason === undefined ? title : `${title}: ${reason}`;
  describe.skipIf(reason !== undefined)(name, () => {
    let folder = '';
    beforeAll(async () => {
      const root = join(import.meta.dirname, 'page');
      folder = await oncePerRun('page', (outDir) => buildPage(root, outDir));
    });
    tests(async (tasks, { isolated = true, withWebGpu = false } = {}) => {
      await using server = await serveFolder(folder, { isolated, tasks });
      await using _page = openPage(server.url, { withWebGpu });
      return reports.parse(await server.result);
    });
  });
}
