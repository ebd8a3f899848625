import { fromData, Generator, type Tensor } from '@shardwise/core';
import { elementCount } from '@shardwise/core/extend';

/** Draws sizes, choices and numbers. They depend only on the seed. */
export class Draw {
  readonly #generator: Generator;

  constructor(seed: number) {
    this.#generator = new Generator(seed);
  }

  /** A number of [0, 1). */
  unit(): number {
    return this.#generator.rand(1)[0] ?? 0;
  }

  integer(least: number, most: number): number {
    return least + Math.floor(this.unit() * (most - least + 1));
  }

  choose<T>(list: readonly [T, ...T[]]): T {
    return list[this.integer(0, list.length - 1)] ?? list[0];
  }

  flip(share = 0.5): boolean {
    return this.unit() < share;
  }

  /** A size of 1 to `most`. Small sizes, and sizes next to powers of 2, are as frequent as large ones. */
  size(most: number): number {
    const size = 2 ** (this.unit() * Math.log2(most));
    const chosen = this.flip(0.3) ? 2 ** Math.round(Math.log2(size)) + this.integer(-1, 1) : size;
    return Math.min(most, Math.max(1, Math.round(chosen)));
  }

  /** Numbers of (-scale, scale) without 0. Equal ones are frequent. */
  numbers(shape: readonly number[], scale = 1): Tensor {
    const units = this.#generator.rand(elementCount(shape));
    const elements = units.map((unit) => ((Math.floor(unit * 1024) - 511.5) / 512) * scale);
    return fromData(elements, [...shape], 'f32');
  }

  trained(shape: readonly number[], scale = 1): Tensor {
    return this.numbers(shape, scale).requiresGrad_();
  }

  /** Integers of 0 to `below` - 1. */
  integers(shape: readonly number[], below: number): Tensor {
    const units = this.#generator.rand(elementCount(shape));
    const elements = Int32Array.from(units, (unit) => Math.floor(unit * below));
    return fromData(elements, [...shape], 'i32');
  }
}
