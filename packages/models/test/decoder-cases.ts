import { readFileSync } from 'node:fs';
import { cpu } from '@shardwise/backend-cpu';
import { createThreadsWorld, joinThreadsWorld } from '@shardwise/collectives';
import { LineMesh, setRank } from '@shardwise/core';
import { architectures, modelFromConfig, type PretrainedModel } from '@shardwise/models';
import { expect } from 'vitest';
import { z } from 'zod';
import { fill } from './golden/formulas.ts';

const numbers = z.string().transform((text) => text.split(' ').map(Number));
const fileSchema = z.array(
  z.object({
    name: z.string(),
    architecture: z.string(),
    config: z.record(z.string(), z.unknown()),
    length: z.number(),
    lastLogits: numbers,
    logits: numbers,
    loss: z.number(),
    gradients: z.record(z.string(), numbers),
    losses: numbers,
    text: z.array(z.number()),
    /** The loss of rows of which the last one ends with padding. */
    paddedLoss: z.number().optional(),
  }),
);

/** What tools/golden-models.py records of a model. */
export type DecoderCase = z.infer<typeof fileSchema>[number];

export const decoderCases: readonly DecoderCase[] = fileSchema.parse(
  JSON.parse(readFileSync(`${import.meta.dirname}/golden/decoders.json`, 'utf8')),
);

export const ROWS = 2;
export const LENGTH = 12;

/** Makes this thread the only rank. */
export async function oneRank(): Promise<void> {
  const group = joinThreadsWorld(createThreadsWorld({ size: 1 }), 0);
  setRank({ device: await cpu(), mesh: new LineMesh('dp', group) });
}

/** The model of a case with its weights. It drops nothing. */
export async function build({ config, architecture }: DecoderCase): Promise<PretrainedModel> {
  const model = modelFromConfig({ ...config, architectures: [architecture] }, architectures);
  await fill(model);
  return model.eval();
}

/** Requires numbers to be equal to 1e-4, or for large ones to this part of them. */
export function expectClose(
  found: ArrayLike<number | bigint>,
  expected: readonly number[] | undefined,
  name = '',
): void {
  expect(found.length, name).toBe(expected?.length);
  for (const [i, value] of (expected ?? []).entries()) {
    expect(Math.abs(Number(found[i]) - value), `${name}[${i}] = ${value}`).toBeLessThan(
      1e-4 * Math.max(1, Math.abs(value)),
    );
  }
}
