import { createHash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Coordinator } from '../../src/together/coordinator/coordinator.ts';
import type { CoordinatorOptions } from '../../src/together/coordinator/coordinator-options.ts';
import type { ConnectionEvents } from '../../src/together/member/member-options.ts';
import { RunMember } from '../../src/together/member/run-member.ts';
import type { ConnectDirectly } from '../../src/together/protocol/direct-link.ts';
import type { Frame, Link, LinkEvents } from '../../src/together/protocol/link.ts';

/** Numbers from 0 below 1, which follow from the seed. */
export function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

/** How long a frame takes, and how often the coordinator looks at the time. */
const [FRAME_MS, TICK_MS] = [5, 50];
const MAX_IDLE_TURNS = 10_000;

/** One direction of a connection. Its frames arrive in order, each when the network says so. */
interface Direction {
  readonly frames: (() => void)[];
  /** Nothing arrives before this time. */
  heldUntilMs: number;
}

/**
 * A coordinator, its members, and what is on its way between them, in one thread and with a clock of its own. Which
 * frame arrives next is random, and follows from the seed.
 */
export class VirtualNetwork {
  readonly coordinator: Coordinator;
  readonly notices: string[] = [];
  readonly #turns: number;
  readonly #random: () => number;
  readonly #directions = new Set<Direction>();
  readonly #timers = new Set<{ readonly dueMs: number; readonly resolve: () => void }>();
  readonly #connections = new Map<
    string,
    { readonly end: () => void; readonly directions: readonly Direction[] }
  >();
  #nowMs = 0;
  #tickedMs = 0;
  #isOver = false;

  /** `turns` is the number of turns of the thread that members may compute for. */
  constructor(seed: number, options: Partial<CoordinatorOptions> = {}, turns = 20) {
    this.#turns = turns;
    this.#random = randomOf(seed);
    this.coordinator = new Coordinator({
      tokenOf: (text) => ['secret', 'second', 'third'].indexOf(text),
      tokens: 1,
      audit: 0,
      random: randomOf(seed + 1000),
      maxMembers: 64,
      roundTimeoutMs: 2000,
      stateTimeoutMs: 2000,
      maxBufferedBytes: 1e9,
      now: () => this.#nowMs,
      onNotice: (notice) => this.notices.push(notice),
      ...options,
    });
  }

  get nowMs(): number {
    return this.#nowMs;
  }

  /** Makes a member, which is to connect. */
  member(
    name: string,
    token = 'secret',
    connectDirectly: ConnectDirectly | null = null,
  ): RunMember {
    return new RunMember({
      url: 'ws://virtual',
      token,
      name,
      reconnectTimeoutMs: 1e9,
      connect: (events) => this.connect(name, events),
      connectDirectly,
      digest: (bytes) => Promise.resolve(createHash('sha256').update(bytes).digest('hex')),
      delay: (milliseconds) => this.delay(milliseconds),
      now: () => this.#nowMs,
      onNotice: (notice) => this.notices.push(`${name}: ${notice}`),
    });
  }

  delay(milliseconds: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#timers.add({ dueMs: this.#nowMs + milliseconds, resolve });
    return promise;
  }

  /** Connects somebody with the coordinator. */
  connect(name: string, events: ConnectionEvents): Link {
    const [up, down]: [Direction, Direction] = [
      { frames: [], heldUntilMs: 0 },
      { frames: [], heldUntilMs: 0 },
    ];
    this.#directions.add(up).add(down);
    const toCoordinator: { events: LinkEvents | null } = { events: null };
    let isOpen = true;
    const end = (): void => {
      if (!isOpen) return;
      isOpen = false;
      this.#directions.delete(up);
      this.#directions.delete(down);
      events.closed();
      toCoordinator.events?.closed();
    };
    const linkOf = (direction: Direction, receive: (frame: Frame) => void): Link => ({
      bufferedBytes: 0,
      send: (frame) => {
        const sent = typeof frame === 'string' ? frame : frame.slice();
        if (isOpen) direction.frames.push(() => receive(sent));
      },
      // What was sent before arrives.
      close: () => (isOpen ? void direction.frames.push(end) : undefined),
    });
    toCoordinator.events = this.coordinator.connect(linkOf(down, (frame) => events.receive(frame)));
    up.frames.push(() => events.opened());
    this.#connections.set(name, { end, directions: [up, down] });
    return linkOf(up, (frame) => toCoordinator.events?.receive(frame));
  }

  /** Ends the latest connection of a member. What is on its way is lost. */
  cut(name: string): void {
    this.#connections.get(name)?.end();
  }

  /** Nothing arrives from a member or at it for some time. */
  hold(name: string, milliseconds: number): void {
    for (const direction of this.#connections.get(name)?.directions ?? []) {
      direction.heldUntilMs = this.#nowMs + milliseconds;
    }
  }

  /** Delivers frames, and lets time pass when nothing is on its way, until `work` has settled. */
  async run<T>(work: Promise<T>): Promise<T> {
    this.#isOver = false;
    const over = work.finally(() => (this.#isOver = true));
    over.catch(() => undefined);
    let idle = 0;
    while (!this.#isOver) {
      await nextTurn();
      const ready = [...this.#directions].filter(
        ({ frames, heldUntilMs }) => frames.length > 0 && heldUntilMs <= this.#nowMs,
      );
      const next = ready[Math.floor(this.#random() * ready.length)];
      if (next === undefined) {
        idle += 1;
        // Members compute, which takes turns of the thread and no virtual time, until they wait.
        if (idle > this.#turns) this.#pass(TICK_MS);
        if (idle > MAX_IDLE_TURNS) throw new Error('members and coordinator wait for each other');
        continue;
      }
      idle = 0;
      next.frames.shift()?.();
      this.#pass(FRAME_MS);
    }
    return over;
  }

  #pass(milliseconds: number): void {
    this.#nowMs += milliseconds;
    for (const timer of this.#timers) {
      if (timer.dueMs > this.#nowMs) continue;
      this.#timers.delete(timer);
      timer.resolve();
    }
    if (this.#nowMs - this.#tickedMs < TICK_MS) return;
    this.#tickedMs = this.#nowMs;
    this.coordinator.tick();
  }
}
