import { Generator } from './generator.ts';

/** A rank's random numbers: a generator on the host for initial values, and keys for numbers that the device draws. */
export class RandomStreams {
  readonly generator: Generator = new Generator();
  seed: number = wrap(this.generator.initialSeed());
  counter = 0;
}

/** The low 32 bits of a seed. */
export function wrap(seed: bigint): number {
  return Number(BigInt.asIntN(32, seed));
}
