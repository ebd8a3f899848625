import { spawnSync } from 'node:child_process';
import { shmAvailability } from '@shardwise/collectives/node';
import { describe, expect, it } from 'vitest';

const program = new URL('./shm-full-device.ts', import.meta.url).pathname;
const node = `'${process.execPath}' --conditions=@shardwise/source '${program}'`;

/** Returns why this machine does not allow mounting another /dev/shm. Undefined if it allows it. */
function whyNoMount(): string | undefined {
  const mount = 'mount -t tmpfs -o size=64k tmpfs /dev/shm';
  const { status, stderr } = spawnSync('unshare', ['--mount', 'sh', '-c', mount]);
  return status === 0 ? undefined : `no mount: ${String(stderr).trim()}`;
}

const shm = shmAvailability();
const noMount = shm.available ? whyNoMount() : shm.reason;

describe.skipIf(noMount !== undefined)(`a full /dev/shm${noMount ? ` (${noMount})` : ''}`, () => {
  it('does not matter to memory that processes share: none of it lies there', () => {
    const fill =
      'mount -t tmpfs -o size=64k tmpfs /dev/shm && head -c 65536 /dev/zero > /dev/shm/full';
    const { status, stdout, stderr } = spawnSync(
      'unshare',
      ['--mount', 'sh', '-c', `${fill} && exec ${node}`],
      { encoding: 'utf8' },
    );
    expect(status, stderr).toBe(0);
    expect(JSON.parse(stdout)).toEqual({ freeBytes: 0, sums: [[3], [3]] });
  });
});

describe.skipIf(!shm.available)('a limit of the size of files', () => {
  it('is an error with the size, before any page is touched', () => {
    const { status, stdout, stderr } = spawnSync('sh', ['-c', `ulimit -f 1000 && exec ${node}`], {
      encoding: 'utf8',
    });
    expect(`${stdout}${stderr}`).toMatch(
      /the kernel refuses ftruncate to \d+ bytes with EFBIG\. Raise the limits/,
    );
    expect(status).toBe(1);
  });
});

describe.skipIf(!shm.available)('a limit of address space', () => {
  it('leaves ranks smaller arenas, where nobody has asked for a length', () => {
    const limits = new URL('./shm-narrow-space.ts', import.meta.url).pathname;
    const run = `'${process.execPath}' --conditions=@shardwise/source '${limits}'`;
    const script = `ulimit -v ${6 * 2 ** 20} && exec ${run}`;
    const { status, stdout, stderr } = spawnSync('sh', ['-c', script], { encoding: 'utf8' });
    expect(status, stderr).toBe(0);
    const { threads, processes } = JSON.parse(stdout);
    expect(threads).toBeLessThan(3 * 2 ** 30);
    expect(threads).toBeGreaterThan(2 ** 26);
    expect(processes).toBeGreaterThan(2 ** 26);
  });
});
