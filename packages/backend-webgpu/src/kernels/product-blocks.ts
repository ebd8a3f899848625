import type { Emitter } from '../emit/emitter.ts';
import {
  laneOf,
  type Operand,
  type Product,
  readElement,
  vectorOf,
  vectorType,
} from './product.ts';

/** Where a group of threads is. */
export interface GroupPlace {
  /** The number of the thread in its group. */
  readonly thread: string;
  /** The first row and the first column of the group's tile. */
  readonly first: Readonly<Record<Operand['name'], string>>;
}

/** How a group brings tiles of both operands into workgroup memory. */
export interface Blocks {
  /** Declares the registers in which a thread holds its blocks. */
  readonly declare: (emitter: Emitter) => void;
  /** Reads a thread's blocks of the tile whose first term is `start`. */
  readonly read: (emitter: Emitter, start: string) => void;
  /** Writes a thread's blocks to workgroup memory. */
  readonly write: (emitter: Emitter) => void;
}

/**
 * Tiles consist of blocks of `lanes` by `lanes` elements, and each thread has the same few blocks of every tile. It
 * reads the next ones into registers before it multiplies, so that it does not wait for memory.
 */
export function blocksOf(product: Product, { thread, first }: GroupPlace): Blocks {
  const { operands, tile, lanes } = product;
  const threads = tile.threads[0] * tile.threads[1];
  const [left, right] = operands.map((operand) => (tile.depth * operand.tile) / lanes ** 2);
  const ends = [left ?? 0, (left ?? 0) + (right ?? 0)] as const;
  const rounds = Array.from({ length: Math.ceil(ends[1] / threads) }, (_, round) =>
    Array.from({ length: lanes }, (_unused, vector) => `held${round}_${vector}`),
  );
  const forEachBlock = (
    emitter: Emitter,
    write: (scope: Emitter, operand: Operand, block: string, held: readonly string[]) => void,
  ): void => {
    for (const [round, held] of rounds.entries()) {
      const begin = round * threads;
      const cases = operands.flatMap((operand, at) => {
        const [from, to] = at === 0 ? [0, ends[0]] : ends;
        if (to <= begin || from >= begin + threads) return [];
        const scope = emitter.inner();
        const moved = begin - from;
        const block = moved < 0 ? `${thread} - ${-moved}u` : after(thread, moved);
        write(scope, operand, scope.let(block), held);
        const isRest = to >= begin + threads;
        return [`${isRest ? '' : `if (${thread} < ${to - begin}u) `}{\n${scope.text}\n}`];
      });
      emitter.line(cases.join(' else '));
    }
  };
  return {
    declare: (emitter) => {
      for (const name of rounds.flat()) emitter.line(`var ${name}: ${vectorType(product)};`);
    },
    read: (emitter, start) => {
      forEachBlock(emitter, (scope, operand, block, held) => {
        const { across, along } = placeOf(scope, product, operand, block);
        for (const [vector, name] of held.entries()) {
          const elements = Array.from({ length: lanes }, (_, lane) => {
            const [i, j] = operand.depthIsLast ? [vector, lane] : [lane, vector];
            const outer = scope.let(after(`${first[operand.name]} + ${across}`, i));
            const inner = scope.let(after(`${start} + ${along}`, j));
            const inside = insideOf(product, operand, outer, inner);
            return readElement(scope, product, operand, { outer, inner, inside });
          });
          scope.line(`${name} = ${vectorOf(product, elements)};`);
        }
      });
    },
    write: (emitter) => {
      forEachBlock(emitter, (scope, operand, block, held) => {
        const { across, along } = placeOf(scope, product, operand, block);
        const { name, depthIsLast, half, tile: size } = operand;
        const own = `${across} / ${lanes}u`;
        const shift = `((${along} / ${lanes}u * ${banksOf(lanes)}u) & ${SHIFT_MASK}u)`;
        const column = scope.let(depthIsLast ? `(${own}) ^ ${shift}` : own);
        for (let vector = 0; vector < lanes; vector++) {
          // Threads read vectors across the sum, so a block along the sum is turned.
          const turned = held.map((each) => laneOf(product, each, vector));
          const value = depthIsLast ? vectorOf(product, turned) : (held[vector] ?? '');
          const at = `(${along} + ${vector}u) * ${size / lanes}u + ${column}`;
          const stored = half === undefined ? value : `${vectorType(product, 'f16')}(${value})`;
          scope.line(`${name}[${at}] = ${stored};`);
        }
      });
    },
  };
}

/**
 * Threads that write turned blocks have neighbouring terms. Where a vector lies among those of its term is shifted by a
 * number that depends on the term, because otherwise they would all write to the same bank of memory.
 */
const SHIFT_MASK = 7;
const banksOf = (lanes: 1 | 4): number => (lanes === 1 ? 1 : 2);

/** A vector of an operand in workgroup memory: the one of `own`, after `vector` others, for the term `k` of the tile. */
export function sharedVector(
  outside: Emitter,
  product: Product,
  { name, depthIsLast, tile: size, half }: Operand,
  { own, before, k }: { readonly own: string; readonly before: number; readonly k: number },
): string {
  const { lanes } = product;
  const shift = depthIsLast ? (Math.floor(k / lanes) * banksOf(lanes)) & SHIFT_MASK : 0;
  const column = shift === 0 ? own : outside.let(`${own} ^ ${shift}u`);
  const element = `${name}[${k * (size / lanes) + before}u + ${column}]`;
  return half === undefined ? element : `${vectorType(product)}(${element})`;
}

function after(start: string, offset: number): string {
  return offset === 0 ? start : `${start} + ${offset}u`;
}

/** The first element of a block: `across` in the tile's rows or columns, and `along` the sum. */
function placeOf(
  scope: Emitter,
  { tile, lanes }: Product,
  { depthIsLast, tile: size }: Operand,
  block: string,
): { readonly across: string; readonly along: string } {
  const row = depthIsLast ? tile.depth / lanes : size / lanes;
  const slow = scope.let(`${block} / ${row}u * ${lanes}u`);
  const fast = scope.let(`${block} % ${row}u * ${lanes}u`);
  return depthIsLast ? { across: slow, along: fast } : { across: fast, along: slow };
}

/** A condition that an element is one of the operand. Undefined if all elements of all tiles are. */
function insideOf(
  { depth, tile }: Product,
  { size, tile: across }: Operand,
  outer: string,
  inner: string,
): string | undefined {
  const conditions = [
    ...(size % across === 0 ? [] : [`(${outer} < ${size}u)`]),
    ...(depth % tile.depth === 0 ? [] : [`(${inner} < ${depth}u)`]),
  ];
  return conditions.length === 0 ? undefined : conditions.join(' & ');
}
