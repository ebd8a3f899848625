import { describe, expect, it } from 'vitest';
import { askNativePart } from '../src/doctor/host/native-part.ts';
import { probes } from '../src/doctor/host/run-probes.ts';
import { Command, freePort } from './command.ts';

describe('shardwise doctor', () => {
  it('prints the findings of every probe as JSON, and no secret', async () => {
    const env = { SHARDWISE_SECRET: 'not-to-be-shown', SHARDWISE_MPI_LIBRARY: '/not-to-be-shown' };
    const command = new Command(['doctor', '--json'], { cwd: import.meta.dirname, env });
    expect(await command.ended()).toBe(0);
    const report: unknown = JSON.parse(command.stdout);
    expect(report).toMatchObject({
      findings: Object.keys(probes).map((name) => ({ name, found: expect.any(String) })),
    });
    expect(command.output).not.toContain('not-to-be-shown');
  });

  it('gives up a native part that does not answer in time', async () => {
    expect(await askNativePart('webgpu', 1)).toEqual({
      available: false,
      reason: 'it did not answer within 0.001 s',
      endedAfterMs: 1,
    });
  });

  it('measures the links between ranks of two hosts, which the first one shows', async () => {
    const rdzv = `127.0.0.1:${await freePort()}`;
    const env = { SHARDWISE_SECRET: 'the-secret-of-the-doctor' };
    const hosts = [0, 1].map(
      (place) =>
        new Command(
          ['doctor', '--nproc', '1', '--nnodes', '2', '--node-rank', `${place}`, '--rdzv', rdzv],
          { cwd: import.meta.dirname, env },
        ),
    );
    const codes = await Promise.all(hosts.map((host) => host.ended()));
    expect(codes, hosts.map(({ output }) => output).join('\n')).toEqual([0, 0]);
    expect(hosts[0]?.stdout).toMatch(/latency in µs\n +0 +1\n0 +· +[\d.]+\n1 +[\d.]+ +·\n/);
    expect(hosts[1]?.stdout).toContain('✓ links         measured; the first host shows them');
  });

  it('shows a red line where the ranks do not come together', async () => {
    const command = new Command(['doctor', '--json', '--nproc', '0'], { cwd: import.meta.dirname });
    expect(await command.ended()).toBe(0);
    expect(JSON.parse(command.stdout)).toMatchObject({ level: 'red' });
    expect(command.stderr).toContain('--nproc');
  });
});
