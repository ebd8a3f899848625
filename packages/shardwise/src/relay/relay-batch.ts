import { z } from 'zod';
import { parseRankMessage, type RankMessage } from '../run-state/run-message.ts';

/** Returns the key under which host `node` puts its `sequence`-th batch. */
export function batchKey(epoch: number, node: number, sequence: number): string {
  return `relay/${epoch}/${node}/${sequence}`;
}

/** Messages of one host's ranks to the host that shows the run. */
export interface RelayBatch {
  readonly messages: readonly RankMessage[];
  /** Whether no batch follows. */
  readonly isLast: boolean;
}

/** The store accepts values of up to 1 MiB. */
export const MAX_BATCH_BYTES = 1_000_000;
const MAX_MESSAGES = 65_536;

const batchSchema = z.object({
  messages: z.array(z.unknown()).max(MAX_MESSAGES),
  isLast: z.boolean(),
});

/** The texts of numbers that JSON cannot express. A loss may have diverged. */
const words: Readonly<Record<string, number>> = {
  NaN: Number.NaN,
  Infinity,
  '-Infinity': -Infinity,
};
const figures = new Set(['loss', 'validationLoss', 'learningRate']);

function number(found: unknown): unknown {
  return typeof found === 'string' ? (words[found] ?? found) : found;
}

/** The reviver for JSON.parse. It turns these texts back into numbers in the fields that hold figures. */
function restore(key: string, found: unknown): unknown {
  if (figures.has(key)) return number(found);
  if (key !== 'metrics' || typeof found !== 'object' || found === null) return found;
  return Object.fromEntries(Object.entries(found).map(([name, value]) => [name, number(value)]));
}

export function encodeMessage(message: RankMessage): string {
  return JSON.stringify(message, (_, value: unknown) =>
    typeof value === 'number' && !Number.isFinite(value) ? String(value) : value,
  );
}

export function encodeBatch(encoded: readonly string[], isLast: boolean): Uint8Array {
  return new TextEncoder().encode(`{"messages":[${encoded.join(',')}],"isLast":${isLast}}`);
}

/** Decodes a batch. Leaves out messages that no rank sends. Returns undefined if the bytes are not a batch. */
export function decodeBatch(bytes: Uint8Array): RelayBatch | undefined {
  try {
    const value: unknown = JSON.parse(new TextDecoder().decode(bytes), restore);
    const { messages, isLast } = batchSchema.parse(value);
    return { messages: messages.flatMap((message) => parseRankMessage(message) ?? []), isLast };
  } catch {
    return undefined;
  }
}
