import { fromData, type Tensor } from '@shardwise/core';

/** Draws sizes, choices and numbers. They depend only on the seed. */
export class Draw {
  #state: number;

  constructor(seed: number) {
    this.#state = Math.imul(seed + 1, 0x9e3779b1);
  }

  /** A number of [0, 1), by Mulberry32. */
  unit(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let bits = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61);
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
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
    const element = (): number => ((this.integer(-512, 511) + 0.5) / 512) * scale;
    return fromData(Float32Array.from({ length: countOf(shape) }, element), [...shape], 'f32');
  }

  trained(shape: readonly number[], scale = 1): Tensor {
    return this.numbers(shape, scale).requiresGrad_();
  }

  /** Integers of 0 to `below` - 1. */
  integers(shape: readonly number[], below: number): Tensor {
    const element = (): number => this.integer(0, below - 1);
    return fromData(Int32Array.from({ length: countOf(shape) }, element), [...shape], 'i32');
  }
}

function countOf(shape: readonly number[]): number {
  return shape.reduce((count, size) => count * size, 1);
}
