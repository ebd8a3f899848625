import { describe, expect, it } from 'vitest';
import type { Coordinator } from '../../src/together/coordinator/coordinator.ts';
import { encodeMessage, parseFromCoordinator } from '../../src/together/protocol/messages.ts';
import { decodePiece, encodePiece } from '../../src/together/protocol/pieces.ts';
import { Connection, enterAs, hashOf, testCoordinator, token } from './connection.ts';

/** A coordinator with a clock that stands still. */
function begin(): {
  readonly coordinator: Coordinator;
  readonly pass: (milliseconds: number) => void;
} {
  let nowMs = 0;
  const coordinator = testCoordinator(() => nowMs);
  return {
    coordinator,
    pass(milliseconds) {
      nowMs += milliseconds;
      coordinator.tick();
    },
  };
}

const update = (round: number): Uint8Array =>
  encodePiece({ kind: 'update', round, member: 1, offset: 0, bytes: Uint8Array.of(1, 2, 3, 4) });

const state = (completed: number, member: number): Uint8Array =>
  encodePiece({ kind: 'state', round: completed, member, offset: 0, bytes: new Uint8Array(8) });

describe('a coordinator', () => {
  it('asks another member for the state if it is wrong or does not arrive', () => {
    const { coordinator, pass } = begin();
    const [a, b, c] = ['a', 'b', 'c'].map((name) => new Connection(coordinator, name));
    if (a === undefined || b === undefined || c === undefined) throw new RangeError('three');
    a.tell(enterAs(0));
    b.tell(enterAs(0));
    a.send(update(0));
    for (const each of [a, b]) each.tell({ kind: 'took', completed: 1, hash: hashOf('1') });
    a.send(update(1));
    c.tell(enterAs(0));
    expect(c.last('await')).toMatchObject({ completed: 3, from: 2 });
    for (const each of [a, b]) each.send(update(2));
    for (const each of [a, b]) each.tell({ kind: 'took', completed: 3, hash: hashOf('3') });
    expect(c.last('state')).toEqual({ kind: 'state', completed: 3, hash: hashOf('3') });
    b.send(state(3, 3));
    c.tell({ kind: 'wrongState', completed: 3 });
    expect(c.last('await')).toMatchObject({ completed: 4, from: 1 });
    expect(a.last('give')).toEqual({ kind: 'give', completed: 4, to: 3 });
    for (const each of [a, b]) each.send(update(3));
    // All may take the outer step some updates later.
    pass(1000);
    expect(c.last('await')).toMatchObject({ completed: 4, from: 1 });
    // Another one has it, and nothing arrives of it.
    b.tell({ kind: 'took', completed: 4, hash: hashOf('4') });
    pass(1000);
    expect(c.last('await')).toMatchObject({ completed: 5, from: 2 });
  });

  it('asks nobody a second time for a state that a stranger calls wrong before it has come', () => {
    const { coordinator } = begin();
    const [a, b] = ['a', 'b'].map((name) => new Connection(coordinator, name));
    if (a === undefined || b === undefined) throw new RangeError('two');
    a.tell(enterAs(0));
    b.tell(enterAs(0));
    for (let time = 0; time < 100; time += 1) b.tell({ kind: 'wrongState', completed: 1 });
    expect(a.messages.filter(({ kind }) => kind === 'give')).toHaveLength(1);
    a.send(update(0));
    a.tell({ kind: 'took', completed: 1, hash: hashOf('1') });
    a.send(state(1, 2));
    expect(a.isOpen).toBe(true);
  });

  it('begins again with a later state of the only member that has the state', () => {
    const { coordinator } = begin();
    const [a, b] = ['a', 'b'].map((name) => new Connection(coordinator, name));
    if (a === undefined || b === undefined) throw new RangeError('two');
    a.tell(enterAs(4));
    b.tell(enterAs(0));
    expect(a.last('give')).toEqual({ kind: 'give', completed: 5, to: 2 });
    // The result of an earlier connection was on its way.
    a.tell({ kind: 'took', completed: 5, hash: hashOf('5') });
    expect(a.last('round')).toEqual({ kind: 'round', round: 5, group: [1] });
    expect(a.last('give')).toEqual({ kind: 'give', completed: 6, to: 2 });
    a.send(update(5));
    a.tell({ kind: 'took', completed: 6, hash: hashOf('6') });
    expect(b.last('state')).toEqual({ kind: 'state', completed: 6, hash: hashOf('6') });
    // One of several members cannot do this.
    b.tell({ kind: 'took', completed: 6, hash: hashOf('6') });
    b.tell({ kind: 'took', completed: 9, hash: hashOf('9') });
    expect(a.last('round')).toEqual({ kind: 'round', round: 6, group: [1] });
  });

  it('begins again with the state that the only member left has taken while it waited for another one', () => {
    const { coordinator } = begin();
    const [a, b] = ['a', 'b'].map((name) => new Connection(coordinator, name));
    if (a === undefined || b === undefined) throw new RangeError('two');
    a.tell(enterAs(4));
    b.tell(enterAs(2));
    b.tell({ kind: 'took', completed: 3, hash: hashOf('3') });
    a.end();
    expect(b.last('begin')).toEqual({ kind: 'begin', completed: 3 });
    expect(b.last('round')).toEqual({ kind: 'round', round: 3, group: [2] });
  });

  it('ends a round without a member that is late, which belongs to the next one when it has caught up', () => {
    const { coordinator, pass } = begin();
    const [a, b] = ['a', 'b'].map((name) => new Connection(coordinator, name));
    if (a === undefined || b === undefined) throw new RangeError('two');
    a.tell(enterAs(0));
    b.tell(enterAs(0));
    a.send(update(0));
    for (const each of [a, b]) each.tell({ kind: 'took', completed: 1, hash: hashOf('1') });
    a.send(update(1));
    for (const each of [a, b]) each.tell({ kind: 'took', completed: 2, hash: hashOf('2') });
    expect(b.last('round')).toEqual({ kind: 'round', round: 2, group: [1, 2] });
    a.send(update(2));
    pass(99);
    expect(a.last('closed')).toMatchObject({ round: 1 });
    pass(1);
    expect(b.last('closed')).toEqual({
      kind: 'closed',
      round: 2,
      updates: [{ number: 1, name: 'a' }],
    });
    expect(b.last('round')).toEqual({ kind: 'round', round: 3, group: [1] });
    b.send(update(2));
    for (const each of [a, b]) each.tell({ kind: 'took', completed: 3, hash: hashOf('3') });
    a.send(update(3));
    expect(b.last('round')).toEqual({ kind: 'round', round: 4, group: [1, 2] });
  });

  it('goes back to the latest state of those who wait if all others leave at once', () => {
    const { coordinator } = begin();
    const [a, b] = ['a', 'b'].map((name) => new Connection(coordinator, name));
    if (a === undefined || b === undefined) throw new RangeError('two');
    a.tell(enterAs(0));
    a.send(update(0));
    a.tell({ kind: 'took', completed: 1, hash: hashOf('1') });
    b.tell(enterAs(0));
    const again = new Connection(coordinator, 'again');
    again.tell({ ...enterAs(1), hash: hashOf('1') });
    a.end();
    expect(again.last('begin')).toEqual({ kind: 'begin', completed: 1 });
    expect(b.last('await')).toMatchObject({ completed: 2, from: again.number });
  });

  it('passes on what a member has learned as it is, with its number, and ends the connection of one that sends too much', () => {
    const { coordinator } = begin();
    const [a, b] = ['a', 'b'].map((name) => new Connection(coordinator, name));
    if (a === undefined || b === undefined) throw new RangeError('two');
    a.tell(enterAs(0));
    b.tell(enterAs(0));
    a.send(update(0));
    b.got.length = 0;
    // The sender writes another number than its own.
    a.send(
      encodePiece({ kind: 'update', round: 1, member: 7, offset: 0, bytes: Uint8Array.of(9, 8) }),
    );
    const [frame] = b.got;
    expect(frame instanceof Uint8Array ? decodePiece(frame) : null).toEqual({
      kind: 'update',
      round: 1,
      member: 1,
      offset: 0,
      bytes: Uint8Array.of(9, 8),
    });
    a.send(
      encodePiece({ kind: 'update', round: 1, member: 1, offset: 2, bytes: new Uint8Array(3) }),
    );
    expect(a.isOpen).toBe(false);
    expect(a.last('refused')).toMatchObject({ reason: 'protocol' });
  });
});

it('messages are read as they are written, and nothing else is', () => {
  const hello = { kind: 'hello', version: 1, token, name: 'a', direct: false } as const;
  expect(parseFromCoordinator(encodeMessage({ kind: 'begin', completed: 3 }))).toEqual({
    kind: 'begin',
    completed: 3,
  });
  expect(parseFromCoordinator(encodeMessage(hello))).toBeNull();
  expect(parseFromCoordinator('{"kind":"begin","completed":-1}')).toBeNull();
  expect(parseFromCoordinator('{"kind":"begin","completed":1,"more":1}')).toBeNull();
  expect(parseFromCoordinator('x'.repeat(1_000_000))).toBeNull();
});
