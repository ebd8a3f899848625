import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { BlockAllocator } from '../src/blocks/block-allocator.ts';
import { BlockTable } from '../src/blocks/block-table.ts';

const BLOCK_SIZE = 4;

/** Tables over one allocator, and what the slots of the cache contain: the token that was written last. */
class TablesInMemory {
  readonly allocator: BlockAllocator;
  readonly tables: { readonly table: BlockTable; readonly tokens: number[] }[] = [];
  readonly #slots: number[];

  constructor(blocks: number) {
    this.allocator = new BlockAllocator(blocks);
    this.#slots = Array.from({ length: blocks * BLOCK_SIZE }, () => -1);
  }

  /** Returns how many tokens were found in the cache. */
  begin(tokens: readonly number[]): number {
    const table = new BlockTable(this.allocator, BLOCK_SIZE);
    const known = table.adoptPrefix(tokens);
    const own = { table, tokens: tokens.slice(0, known) };
    this.tables.push(own);
    this.append(this.tables.length - 1, tokens.slice(known));
    return known;
  }

  append(index: number, tokens: readonly number[]): void {
    const own = this.tables[index];
    if (own === undefined || own.table.blocksFor(tokens.length) > this.allocator.available) return;
    const { table } = own;
    for (const { from, to } of table.append(tokens.length)) {
      for (let at = 0; at < BLOCK_SIZE; at++) {
        this.#slots[to * BLOCK_SIZE + at] = this.#slots[from * BLOCK_SIZE + at] ?? -1;
      }
    }
    for (const token of tokens) this.#slots[table.slotOf(own.tokens.push(token) - 1)] = token;
    table.seal(own.tokens, own.tokens.length);
  }

  fork(index: number): void {
    const own = this.tables[index];
    if (own === undefined) return;
    this.tables.push({ table: own.table.fork(), tokens: [...own.tokens] });
  }

  release(index: number): void {
    for (const { table } of this.tables.splice(index, 1)) table.release();
  }

  /** What each table reads through its blocks. */
  read(): readonly number[][] {
    return this.tables.map(({ table, tokens }) =>
      tokens.map((_, position) => this.#slots[table.slotOf(position)] ?? -1),
    );
  }
}

const tokens = fc.array(fc.nat({ max: 1 }), { minLength: 1, maxLength: 14 });
const action = fc.oneof(
  fc.record({ kind: fc.constant('begin' as const), tokens }),
  fc.record({ kind: fc.constant('append' as const), at: fc.nat({ max: 5 }), tokens }),
  fc.record({ kind: fc.constant('fork' as const), at: fc.nat({ max: 5 }) }),
  fc.record({ kind: fc.constant('release' as const), at: fc.nat({ max: 5 }) }),
  fc.record({ kind: fc.constant('forget' as const) }),
);

test('After any uses, each table reads its own tokens, each block counts its users, and none is lost.', () => {
  fc.assert(
    fc.property(fc.array(action, { maxLength: 60 }), (actions) => {
      const memory = new TablesInMemory(12);
      for (const each of actions) {
        if (each.kind === 'begin') memory.begin(each.tokens);
        else if (each.kind === 'append') memory.append(each.at, each.tokens);
        else if (each.kind === 'fork') memory.fork(each.at);
        else if (each.kind === 'release') memory.release(each.at);
        else memory.allocator.forget();
        const used = memory.tables.flatMap(({ table }) => table.blocks);
        expect(memory.allocator.faults(used)).toEqual([]);
        expect(memory.read()).toEqual(memory.tables.map((table) => table.tokens));
        // Nothing is wasted but the end of the last block.
        for (const { table } of memory.tables) {
          expect(table.blocks).toHaveLength(Math.ceil(table.length / BLOCK_SIZE));
        }
      }
      while (memory.tables.length > 0) memory.release(0);
      expect(memory.allocator.used).toBe(0);
      expect(memory.allocator.available).toBe(12);
    }),
    { numRuns: 400 },
  );
});

test('A sequence begins with the full blocks of another one that has the same tokens, but not with its last token.', () => {
  const memory = new TablesInMemory(12);
  memory.begin([1, 2, 3, 4, 5, 6, 7, 8, 9]);
  expect(memory.begin([1, 2, 3, 4, 5, 6, 7, 8])).toBe(4);
  expect(memory.begin([1, 2, 3, 4, 5, 6, 7, 8, 0])).toBe(8);
  expect(memory.begin([1, 2, 3, 0, 5, 6, 7, 8, 9])).toBe(0);
  const [first, second, third] = memory.tables;
  expect(second?.table.blocks[0]).toBe(first?.table.blocks[0]);
  expect(third?.table.blocks.slice(0, 2)).toEqual(first?.table.blocks.slice(0, 2));
});

test('Tables of different salts share nothing.', () => {
  const allocator = new BlockAllocator(8);
  const tokensOfAll = [1, 2, 3, 4, 5];
  const [mine, other] = ['mine', 'other'].map((salt) => new BlockTable(allocator, 4, salt));
  mine?.append(5);
  mine?.seal(tokensOfAll, 5);
  expect(other?.adoptPrefix(tokensOfAll)).toBe(0);
  expect(new BlockTable(allocator, 4, 'mine').adoptPrefix(tokensOfAll)).toBe(4);
});

test('The block that was used least recently loses its content first, and the end of a sequence before its beginning.', () => {
  const memory = new TablesInMemory(4);
  memory.begin([1, 1, 1, 1, 2, 2, 2, 2]);
  memory.begin([3, 3, 3, 3]);
  memory.release(0);
  memory.release(0);
  expect(memory.allocator.kept).toBe(3);
  memory.begin([9, 9, 9, 9, 8, 8, 8, 8]);
  memory.release(0);
  expect(memory.begin([1, 1, 1, 1, 2, 2, 2, 2, 0])).toBe(4);
});

test('Two sequences that share the last block copy it once, when one of both writes.', () => {
  const allocator = new BlockAllocator(4);
  const first = new BlockTable(allocator, 4);
  first.append(6);
  const second = first.fork();
  expect(allocator.used).toBe(2);
  expect(second.blocksFor(1)).toBe(1);
  expect(second.append(1)).toEqual([{ from: first.blocks[1], to: second.blocks[1] }]);
  expect(first.append(1)).toEqual([]);
  expect(allocator.used).toBe(3);
});

test('A block that is released twice, or asked for when there is none, is an error.', () => {
  const allocator = new BlockAllocator(1);
  const block = allocator.allocate();
  expect(() => allocator.allocate()).toThrow('all 1 are in use');
  allocator.release(block);
  expect(() => allocator.release(block)).toThrow('nobody uses it');
});

test('The number of blocks costs nothing before they are used.', () => {
  // A list of so many blocks would take gigabytes.
  const allocator = new BlockAllocator(2 ** 29);
  const blocks = [allocator.allocate(), allocator.allocate()];
  expect([...blocks, allocator.available, allocator.used]).toEqual([0, 1, 2 ** 29 - 2, 2]);
  for (const block of blocks) allocator.release(block);
  expect(allocator.allocate()).toBe(1);
});
