import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { Command, fixture } from './command.ts';
import { OtlpReceiver } from './otlp-receiver.ts';

describe('shardwise run --metrics opentelemetry', () => {
  let cwd = '';
  beforeEach(async () => {
    cwd = await mkdtemp(join(tmpdir(), 'shardwise-otlp-'));
  });

  it('sends the last steps of a run that fails', async () => {
    const receiver = new OtlpReceiver();
    const env = { OTEL_EXPORTER_OTLP_ENDPOINT: await receiver.listen() };
    const options = ['--nproc', '2', '--ranks', 'processes', '--metrics', 'opentelemetry'];
    const script = [fixture('elastic.ts'), '8', '1', '1:5:kill'];
    const run = new Command(['run', ...options, ...script], { cwd, env });
    expect(await run.ended(), run.output).toBe(137);
    expect(receiver.values['shardwise.training.step {step}']).toBeGreaterThanOrEqual(1);
    expect(receiver.values['shardwise.training.loss 1']).toBeGreaterThan(0);
    receiver.close();
  });

  it('begins no run without the packages, and says how to install them', async () => {
    const hook = `import { registerHooks } from 'node:module';
      registerHooks({ resolve(name, context, next) {
        if (name.startsWith('@opentelemetry/sdk')) throw new Error('Cannot find package ' + name);
        return next(name, context);
      } });`;
    const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(hook)}` };
    const args = ['run', '--metrics', 'opentelemetry', fixture('train.ts')];
    const run = new Command(args, { cwd, env });
    expect(await run.ended(), run.output).toBe(2);
    expect(run.stderr).toMatch(
      /^--metrics opentelemetry: its packages are not all there \(Cannot find package @opentelemetry\/sdk-metrics\)\. npm install @opentelemetry\/api @opentelemetry\/sdk-metrics/,
    );
  });
});
