import { describe, expect, it } from 'vitest';
import { askNativePart } from '../src/doctor/host/native-part.ts';
import { probes } from '../src/doctor/host/run-probes.ts';
import { Command } from './command.ts';

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
    });
  });
});
