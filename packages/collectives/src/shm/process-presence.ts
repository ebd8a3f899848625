import { closeSync, fstatSync } from 'node:fs';
import { Socket } from 'node:net';
import { type AbortCause, ConfigError } from '@shardwise/core/spec';
import type { Presence } from '../shared-memory/alarm.ts';
import { Bell, BellNumbers, type MemoryMap } from '../shared-memory/world-memory-map.ts';
import { linuxCalls, type LinuxCalls } from './linux-calls.ts';
import { ProcessAlarm } from './process-alarm.ts';
import { identityOf, isAlive, type ProcessIdentity } from './process-identity.ts';

/** Values that stand in place of a process id. */
const JOINING = -2;
const LEFT = -1;

/** A rank that is a process. While it waits, it checks whether the other ranks and their launcher are alive. */
export class ProcessPresence extends ProcessAlarm implements Presence {
  readonly lookEveryMs: number = 100;
  readonly #rank: number;
  readonly #size: number;
  readonly #launcher: ProcessIdentity;
  readonly #calls: LinuxCalls;
  readonly #pipe: Socket;
  readonly #writeEnd: number;
  #onWake: (() => void) | undefined;

  /** Throws ConfigError if another process is this rank. */
  constructor(memory: WebAssembly.Memory, map: MemoryMap, rank: number, launcher: ProcessIdentity) {
    super(memory, map);
    this.#rank = rank;
    this.#size = map.size;
    this.#launcher = launcher;
    this.#claim();
    this.#calls = linuxCalls();
    const { readEnd, writeEnd } = this.#calls.createPipe();
    // A pipe does not end while somebody could still write to it, so this process keeps its writing end.
    this.#writeEnd = writeEnd;
    this.#pipe = new Socket({ fd: readEnd, readable: true, writable: false });
    this.#pipe.on('data', () => this.#onWake?.());
    this.#pipe.unref();
    this.#publish();
  }

  nap(): void {
    this.#calls.yieldCore();
  }

  listen(onWake: () => void): void {
    this.#onWake = onWake;
  }

  stopListening(): void {
    this.#onWake = undefined;
  }

  findFailure(): AbortCause | undefined {
    for (let rank = 0; rank < this.#size; rank++) {
      const { word, number } = this.bell(rank);
      const pid = Atomics.load(this.words, word + Bell.pid);
      if (rank === this.#rank || pid <= 0) continue;
      const startTicks = this.numbers[number + BellNumbers.startTicks] ?? 0;
      if (isAlive({ pid, startTicks })) continue;
      // The rank may have left, as it should, before its process ended.
      if (Atomics.load(this.words, word + Bell.pid) !== pid) continue;
      return { rank, reason: `its process ${pid} ended without closing the group` };
    }
    if (isAlive(this.#launcher)) return undefined;
    return { rank: undefined, reason: `its process ${this.#launcher.pid} ended` };
  }

  leave(): void {
    Atomics.store(this.words, this.bell(this.#rank).word + Bell.pid, LEFT);
    this.#pipe.destroy();
    closeSync(this.#writeEnd);
    this.closePipes();
  }

  #claim(): void {
    const word = this.bell(this.#rank).word + Bell.pid;
    const before = Atomics.compareExchange(this.words, word, 0, JOINING);
    if (before === 0) return;
    const by = before > 0 ? `process ${before}` : 'another process';
    throw new ConfigError(
      {
        asked: `Process ${process.pid} joining a world as rank ${this.#rank}`,
        found: `${by} has joined as this rank already`,
        todo: 'Join each rank once, and make a new world to start again',
      },
      { rank: this.#rank, pid: process.pid, joinedBy: before },
    );
  }

  #publish(): void {
    const { word, number } = this.bell(this.#rank);
    const { pid, startTicks } = identityOf(process.pid);
    this.words[word + Bell.pipe] = this.#writeEnd;
    this.numbers[number + BellNumbers.startTicks] = startTicks;
    this.numbers[number + BellNumbers.pipeInode] = fstatSync(this.#writeEnd).ino;
    Atomics.store(this.words, word + Bell.pid, pid);
  }
}
