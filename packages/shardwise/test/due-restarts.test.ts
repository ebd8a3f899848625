import { expect, it, vi } from 'vitest';
import { DueRestarts } from '../src/launcher/members/due-restarts.ts';
import { MemberSlot } from '../src/launcher/members/member-slot.ts';
import { lostBy } from '../src/launcher/ranks/rank-handle.ts';

const never = new Promise<never>(() => undefined);

/** The slot of rank 1 on a host that has come. */
function slotOfHost(): MemberSlot {
  const start = () => ({
    outcome: never,
    order: () => undefined,
    terminate: () => Promise.resolve(),
  });
  const listeners = { onMessage: vi.fn(), onMember: vi.fn(), onGone: vi.fn() };
  return new MemberSlot({ number: 1, host: 1, start }, listeners);
}

const broken = { exitCode: 1, error: new Error('it broke'), terminated: false };

function restarts(): { readonly due: DueRestarts; readonly notices: readonly string[] } {
  const notices: string[] = [];
  const due = new DueRestarts({
    min: 1,
    takeRestart: () => true,
    onNotice: (text) => void notices.push(text),
    store: undefined,
    onHosts: () => undefined,
  });
  return { due, notices };
}

it('counts the failed starts of a rank also if its host comes anew', () => {
  const { due, notices } = restarts();
  due.add(slotOfHost(), broken);
  due.add(slotOfHost(), broken);
  expect(notices).toHaveLength(1);
});

it('forgets failed starts of a rank that has committed before its host was lost', () => {
  const { due, notices } = restarts();
  const slot = slotOfHost();
  due.add(slot, broken);
  slot.hasCommitted = true;
  slot.abandon();
  due.add(slot, lostBy('its host was lost'));
  due.add(slotOfHost(), broken);
  expect(notices).toEqual([]);
});
