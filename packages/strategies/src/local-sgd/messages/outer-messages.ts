import type { ProcessGroup } from '@shardwise/core/extend';
import { type QuantizedBits, quantizedBytes } from '../../sharded/quantized/quantize-rows.ts';
import { aggregate, type Aggregation } from '../aggregation/aggregate.ts';
import { decodeBlocks, encodeBlocks } from './block-codes.ts';

/** The bits of an element of an outer gradient on the wire. 32: f32 as it is. */
export type OuterBits = QuantizedBits | 32;

/** What messages of few bits have left out so far. It is added to the next values that are sent. */
export interface CompressionErrors {
  /** The error of what this rank sends. Shape: [n]. */
  readonly worker: Float32Array;
  /** The error of the mean of the part that this rank averages. Shape: [partElements(n)]. */
  readonly server: Float32Array;
}

/** A message of an agreement. */
export interface OuterMessage {
  readonly operation: 'allReduce' | 'allToAll' | 'allGather';
  readonly bytes: number;
}

/** The number of elements of which each rank computes the mean. */
export function partElements(elements: number, ranks: number): number {
  return Math.ceil(elements / ranks);
}

/** The errors before the first message. */
export function noErrors(elements: number, ranks: number): CompressionErrors {
  return {
    worker: new Float32Array(elements),
    server: new Float32Array(partElements(elements, ranks)),
  };
}

/** How ranks agree on an outer gradient. */
export interface Agreement {
  readonly bits: OuterBits;
  readonly aggregation: Aggregation;
}

/** The bytes of so many elements in a message. */
export function messageBytes(elements: number, bits: OuterBits): number {
  return bits === 32 ? elements * FLOAT_BYTES : quantizedBytes(elements, bits);
}

/** Writes values as the message of `messageBytes`. With 32 bits, it shares their memory. Shape: values [n]. */
export function encodeUpdate(values: Float32Array, bits: OuterBits): Uint8Array {
  return bits === 32 ? bytesOf(values) : encodeBlocks(values, bits);
}

/** The messages by which ranks agree on so many elements, in their order. */
export function agreementMessages(
  elements: number,
  ranks: number,
  { bits, aggregation }: Agreement,
): readonly OuterMessage[] {
  if (ranks === 1) return [];
  const ownBytes = messageBytes(elements, bits);
  if (aggregation.rule !== 'mean') return [{ operation: 'allGather', bytes: ranks * ownBytes }];
  if (bits === 32) return [{ operation: 'allReduce', bytes: ownBytes }];
  const bytes = ranks * quantizedBytes(partElements(elements, ranks), bits);
  return [
    { operation: 'allToAll', bytes },
    { operation: 'allGather', bytes },
  ];
}

const FLOAT_BYTES = Float32Array.BYTES_PER_ELEMENT;

/**
 * Makes one vector of those of all ranks, which all ranks get with the same bits. It owns `own`. `errors` are null if the
 * elements have 32 bits. Shape: own [n] -> [n].
 */
export async function agree(
  own: Float32Array,
  group: ProcessGroup,
  { bits, aggregation }: Agreement,
  errors: CompressionErrors | null,
): Promise<Float32Array> {
  if (group.size === 1) return own;
  if (aggregation.rule !== 'mean')
    return aggregate(await gathered(own, group, bits, errors), aggregation);
  if (bits !== 32 && errors !== null) return quantizedMean(own, group, bits, errors);
  await group.allReduce({ bytes: bytesOf(own), dtype: 'f32' }, 'avg');
  return own;
}

/** Returns the vectors of all ranks, in their order. Shape: [n] -> W times [n]. */
async function gathered(
  own: Float32Array,
  group: ProcessGroup,
  bits: OuterBits,
  errors: CompressionErrors | null,
): Promise<readonly Float32Array[]> {
  const { size } = group;
  const { length } = own;
  const isExact = bits === 32 || errors === null;
  let message = bytesOf(own);
  if (!isExact) {
    const owed = own.map((value, at) => value + (errors.worker[at] ?? 0));
    message = encodeBlocks(owed, bits);
    keepError(errors.worker, owed, decodeBlocks(message, length, bits));
  }
  const all = new Uint8Array(size * message.byteLength);
  const dtype = isExact ? 'f32' : 'u8';
  await group.allGather({ bytes: message, dtype }, { bytes: all, dtype });
  return Array.from({ length: size }, (_, rank) => {
    const from = all.slice(rank * message.byteLength, (rank + 1) * message.byteLength);
    return isExact ? new Float32Array(from.buffer) : decodeBlocks(from, length, bits);
  });
}

/**
 * The mean over the ranks of a group by messages of few bits: to the rank that averages a part, and back. What the
 * messages leave out is kept in `errors` and sent later. All ranks get the same bits. Shape: [n] -> [n].
 */
async function quantizedMean(
  own: Float32Array,
  group: ProcessGroup,
  bits: QuantizedBits,
  errors: CompressionErrors,
): Promise<Float32Array> {
  const { size } = group;
  const { length } = own;
  const part = partElements(length, size);
  const partBytes = quantizedBytes(part, bits);
  const partsOf = (message: Uint8Array): readonly Float32Array[] =>
    Array.from({ length: size }, (_, rank) =>
      decodeBlocks(message.subarray(rank * partBytes, (rank + 1) * partBytes), part, bits),
    );
  const owed = new Float32Array(part * size);
  for (let at = 0; at < length; at++) owed[at] = (own[at] ?? 0) + (errors.worker[at] ?? 0);
  const sent = new Uint8Array(size * partBytes);
  for (let rank = 0; rank < size; rank++) {
    sent.set(encodeBlocks(owed.subarray(rank * part, (rank + 1) * part), bits), rank * partBytes);
  }
  keepError(errors.worker, owed, joined(partsOf(sent), length));
  const arrived = new Uint8Array(size * partBytes);
  await group.allToAll({ bytes: sent, dtype: 'u8' }, { bytes: arrived, dtype: 'u8' });
  const mean = meanOf(partsOf(arrived));
  for (let at = 0; at < part; at++) mean[at] = (mean[at] ?? 0) + (errors.server[at] ?? 0);
  const answer = encodeBlocks(mean, bits);
  keepError(errors.server, mean, decodeBlocks(answer, part, bits));
  const answers = new Uint8Array(size * partBytes);
  await group.allGather({ bytes: answer, dtype: 'u8' }, { bytes: answers, dtype: 'u8' });
  return joined(partsOf(answers), length);
}

/** The sum in the order of the ranks, divided by their number. Each term is rounded to f32. Shape: W times [n] -> [n]. */
function meanOf(terms: readonly Float32Array[]): Float32Array {
  const mean = new Float32Array(terms[0]?.length ?? 0);
  for (const term of terms) {
    for (let at = 0; at < mean.length; at++) mean[at] = (mean[at] ?? 0) + (term[at] ?? 0);
  }
  for (let at = 0; at < mean.length; at++) mean[at] = (mean[at] ?? 0) / terms.length;
  return mean;
}

/** Keeps what was owed and not sent. Shape: error [n], owed [n or more], sent [n]. */
function keepError(error: Float32Array, owed: Float32Array, sent: Float32Array): void {
  for (let at = 0; at < error.length; at++) error[at] = (owed[at] ?? 0) - (sent[at] ?? 0);
}

/** Puts parts one behind the other, and leaves out the padding. */
function joined(parts: readonly Float32Array[], length: number): Float32Array {
  const whole = new Float32Array(length);
  let at = 0;
  for (const part of parts) {
    whole.set(part.subarray(0, Math.max(0, length - at)), at);
    at += part.length;
  }
  return whole;
}

/** The bytes of an array, without a copy. */
export function bytesOf({ buffer, byteOffset, byteLength }: Float32Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}
