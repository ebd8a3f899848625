import { expect } from 'vitest';
import type { Frame } from '../../src/together/protocol/link.ts';
import { encodeMessage, type FromMember } from '../../src/together/protocol/messages.ts';
import { encodePiece } from '../../src/together/protocol/pieces.ts';
import { Connection, enterAs, hashOf, testCoordinator, token } from './connection.ts';
import { randomOf } from './virtual-network.ts';

/** Frames that members send, from which those of strangers are made. */
function samples(completed: number): readonly Frame[] {
  const piece = { round: completed, member: 1, offset: 0, bytes: Uint8Array.of(1, 2, 3, 4) };
  return [
    encodeMessage({ kind: 'hello', version: 1, token, name: 'stranger', direct: true }),
    encodeMessage(enterAs(completed)),
    encodeMessage({ kind: 'took', completed, hash: hashOf('other') }),
    // By this one, a stranger who has entered becomes a member.
    encodeMessage({ kind: 'took', completed, hash: hashOf(String(completed)) }),
    encodeMessage({ kind: 'cannotGive', to: 1 }),
    encodeMessage({ kind: 'wrongState', completed }),
    encodeMessage({ kind: 'refuse', round: Math.max(0, completed - 1), numbers: [1, 2] }),
    encodeMessage({
      kind: 'commit',
      round: completed,
      hash: hashOf('update'),
      directTo: [1],
      made: { middle: hashOf('middle'), seed: 1 },
    }),
    encodeMessage({
      kind: 'audited',
      round: Math.max(0, completed - 1),
      member: 1,
      hash: hashOf('other'),
      middle: hashOf('middle'),
    }),
    encodeMessage({ kind: 'got', round: completed, from: 1, hash: hashOf('update') }),
    encodeMessage({ kind: 'signal', to: 1, text: '{}' }),
    encodeMessage({ kind: 'linked', to: 1, isOpen: true }),
    encodeMessage({ kind: 'cannotAudit', round: Math.max(0, completed - 1), member: 1 }),
    encodeMessage({ kind: 'report', loss: 1, samples: 3 }),
    encodeMessage({ kind: 'alive' }),
    encodePiece({ kind: 'update', ...piece }),
    encodePiece({ kind: 'state', ...piece }),
  ];
}

/** A frame of members, the same with some bytes changed, or bytes that are random. */
function strangeFrame(random: () => number, completed: number): Frame {
  const known = samples(completed);
  const chosen = known[Math.floor(random() * known.length)] ?? '';
  const kind = random();
  const bytes = typeof chosen === 'string' ? new TextEncoder().encode(chosen) : chosen.slice();
  if (kind < 0.2) return chosen;
  if (kind < 0.3)
    return Uint8Array.from({ length: Math.floor(random() * 64) }, () => random() * 256);
  const changes = 1 + Math.floor(random() * 3);
  for (let change = 0; change < changes; change++) {
    bytes[Math.floor(random() * bytes.length)] = random() * 256;
  }
  const mutated = kind < 0.4 ? bytes.subarray(0, Math.floor(random() * bytes.length)) : bytes;
  return typeof chosen === 'string' ? new TextDecoder().decode(mutated) : mutated;
}

/**
 * Two members train while strangers send frames, half of them with the token. The members must see the rounds that they
 * would see without strangers, beside updates of strangers that are as long as they must be.
 */
export function expectUnchanged(seed: number, frames: number): void {
  const random = randomOf(seed);
  let nowMs = 0;
  const coordinator = testCoordinator(() => nowMs);
  const members = ['first', 'second', 'third'].map((name) => new Connection(coordinator, name));
  const [first, ...others] = members;
  if (first === undefined) throw new RangeError('three members');
  first.tell(enterAs(0));
  let completed = 0;
  const state = (of: number): FromMember => ({
    kind: 'took',
    completed: of,
    hash: hashOf(String(of)),
  });
  const update = (connection: Connection, round: number): void =>
    connection.send(
      encodePiece({
        kind: 'update',
        round,
        member: 1,
        offset: 0,
        bytes: Uint8Array.of(0, 0, 128, 63),
      }),
    );
  // The others wait for the state after the first round, which the first one gives.
  for (const other of others) other.tell(enterAs(0));
  update(first, 0);
  first.tell(state(1));
  for (const other of others) other.tell(state(1));
  completed = 1;
  update(first, 1);
  for (const each of members) each.tell(state(2));
  completed = 2;
  for (const each of members) each.got.length = 0;

  let stranger = new Connection(coordinator);
  for (let sent = 0; sent < frames; sent++) {
    if (!stranger.isOpen || random() < 0.01) {
      stranger.end();
      stranger = new Connection(coordinator);
      const isIn = random() < 0.7;
      if (isIn)
        stranger.tell({
          kind: 'hello',
          version: 1,
          token,
          name: 'stranger',
          direct: random() < 0.5,
        });
      if (isIn && random() < 0.7) stranger.tell(enterAs(completed));
    }
    stranger.send(strangeFrame(random, completed));
    stranger.got.length = 0;
    nowMs += 1;
    coordinator.tick();
    if (sent % 20 !== 0) continue;
    for (const each of members) update(each, completed);
    nowMs += 200;
    coordinator.tick();
    completed += 1;
    for (const each of members) {
      each.tell(state(completed));
      const ended = each.messages.filter((message) => message.kind === 'closed');
      expect(ended.map(({ round }) => round)).toEqual([completed - 1]);
      const named = ended.flatMap(({ updates }) => updates.map(({ name }) => name));
      expect(named.filter((name) => name !== 'stranger')).toEqual(['first', 'second', 'third']);
      each.got.length = 0;
    }
  }
  const { members: there } = coordinator.status;
  expect(members.every(({ isOpen }) => isOpen)).toBe(true);
  for (const name of ['first', 'second', 'third']) {
    expect(there.find((each) => each.name === name)?.place).toBe('training');
  }
}
