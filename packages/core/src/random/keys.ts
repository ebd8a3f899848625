import * as option from '../base/option-rules.ts';
import { type Check, checkSavedData, object } from '../saved-data.ts';
import { currentScope, rankState, within } from '../ambient.ts';
import { fromData } from '../tensor/create.ts';
import type { Tensor } from '../tensor/tensor.ts';
import { Generator } from './generator.ts';
import { RandomStreams, wrap } from './random-streams.ts';
import { checkGeneratorState, type GeneratorState } from './generator-state.ts';

/** The state of this rank's random numbers, as plain data. */
export type RandomState = {
  readonly generator: GeneratorState;
  /** The first half of the keys. */
  readonly seed: number;
  /** The number of keys given out since manualSeed, modulo 2^32. */
  readonly counter: number;
};

const checkRandomState: Check<RandomState> = object<RandomState>({
  generator: checkGeneratorState,
  seed: option.integer(-(2 ** 31), 2 ** 31 - 1),
  counter: option.integer(-(2 ** 31), 2 ** 31 - 1),
});

function streamsOfRank(): RandomStreams {
  return (rankState.streams ??= new RandomStreams());
}

/**
 * Restarts the random numbers of this rank: the default generator (torch.manual_seed) and the keys of dropout. Ranks
 * with the same seed draw the same numbers. Throws ConfigError if the seed is not an integer in [-2^63, 2^64).
 */
export function manualSeed(seed: number | bigint): Generator {
  const streams = streamsOfRank();
  streams.generator.manualSeed(seed);
  streams.seed = wrap(streams.generator.initialSeed());
  streams.counter = 0;
  return streams.generator;
}

/** The generator from which layers draw their initial values if none is given. */
export function defaultGenerator(): Generator {
  return streamsOfRank().generator;
}

/**
 * The generator from which random tensors are drawn if none is given. Inside `withBatchPart` it is a new one, which the
 * next key seeds: the part's numbers are its own, and the default generator stays the same on all ranks.
 */
export function generatorOfDraws(): Generator {
  const { batchPart } = currentScope();
  if (batchPart === null) return defaultGenerator();
  const streams = streamsOfRank();
  const seed = foldSeed(foldSeed(streams.seed, batchPart), streams.counter);
  streams.counter = (streams.counter + 1) | 0;
  return new Generator(seed >>> 0);
}

/**
 * A new key for random bits. It is data and not structure, so steps that draw new numbers run one plan.
 * Shape: -> i32 [2].
 */
export function nextKey(): Tensor {
  const streams = streamsOfRank();
  const { batchPart, coordinates } = currentScope();
  const ofBatch = batchPart === null ? streams.seed : foldSeed(streams.seed, batchPart);
  const seed = coordinates.reduce(foldSeed, ofBatch);
  const key = fromData(Int32Array.of(seed, streams.counter), [2], 'i32');
  streams.counter = (streams.counter + 1) | 0;
  return key;
}

/**
 * Keys and random tensors drawn inside `body` depend on the part of the batch that this rank has. So ranks with the same
 * seed draw different numbers for different rows, and ranks with the same rows draw the same. Throws ConfigError for a
 * body that returns a promise.
 */
export function withBatchPart<T>(batchPart: number, body: () => T): T {
  return within('forward', { batchPart }, body);
}

/**
 * Keys drawn inside `body` depend on this rank's coordinate along a mesh axis. So ranks with the same seed draw
 * different numbers for their parts of a value there, and equal keys after it. Throws ConfigError for a body
 * that returns a promise.
 */
export function withCoordinateKeys<T>(coordinate: number, body: () => T): T {
  const coordinates = [...currentScope().coordinates, coordinate];
  return within('withCoordinateKeys', { coordinates }, body);
}

/**
 * The first half of the keys of a coordinate. It differs for any two coordinates (of 32 bits), because
 * each step is one to one. The steps are the finaliser of MurmurHash3 (Appleby 2011).
 */
function foldSeed(seed: number, coordinate: number): number {
  let bits = seed ^ Math.imul(coordinate + 1, 0x9e3779b1);
  bits = Math.imul(bits ^ (bits >>> 16), 0x85ebca6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35);
  return bits ^ (bits >>> 16);
}

/** The state of this rank's random streams, for saving. setRandomState restores it. */
export function randomState(): RandomState {
  const { generator, seed, counter } = streamsOfRank();
  return { generator: generator.getState(), seed, counter };
}

/** Restores a state. Throws ConfigError if `state` is not a result of randomState. */
export function setRandomState(state: unknown): void {
  const { generator, seed, counter } = checkSavedData(
    checkRandomState,
    state,
    "set the state of this rank's random numbers",
    'Pass what randomState() returned, unchanged',
  );
  const streams = streamsOfRank();
  streams.generator.setState(generator);
  streams.seed = seed;
  streams.counter = counter;
}
