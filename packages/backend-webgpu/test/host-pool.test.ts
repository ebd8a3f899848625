import { ConfigError } from '@shardwise/core/spec';
import { describe, expect, it } from 'vitest';
import { HostPool } from '../src/device/host-pool.ts';

describe('memory of the host for values that travel', () => {
  const memory = new WebAssembly.Memory({ initial: 2, maximum: 2, shared: true });

  it('comes from the region while that has room, and is allocated separately afterwards', () => {
    const pool = new HostPool({ memory, byteOffset: 70, byteLength: 1000 });
    const taken = [300, 400, 300].map((bytes) => pool.take(bytes).bytes);
    expect(taken.map(({ byteLength }) => byteLength)).toEqual([300, 400, 300]);
    expect(taken.map(({ buffer }) => buffer === memory.buffer)).toEqual([true, true, false]);
    const [first, second] = taken.map(({ byteOffset }) => byteOffset);
    // The pool begins at the first whole line of the memory.
    expect(first).toBe(128);
    expect(second).toBeGreaterThanOrEqual(428);
  });

  it('is used again once it has been given back, for sizes that differ little, and not before', () => {
    const pool = new HostPool({ memory });
    const [a, b] = [pool.take(1000), pool.take(1000)];
    expect(b.bytes.byteOffset).not.toBe(a.bytes.byteOffset);
    a.free();
    const again = pool.take(990).bytes;
    expect([again.byteOffset, again.byteLength]).toEqual([a.bytes.byteOffset, 990]);
  });

  it('is used again without a region, too', () => {
    const pool = new HostPool();
    const first = pool.take(500);
    first.free();
    expect(pool.take(500).bytes.buffer).toBe(first.bytes.buffer);
  });

  it('is refused where the region is not in its memory', () => {
    const whole = memory.buffer.byteLength;
    expect(() => new HostPool({ memory, byteOffset: 64, byteLength: whole })).toThrow(ConfigError);
    expect(() => new HostPool({ memory, byteOffset: whole + 1 })).toThrow(ConfigError);
  });
});
