import { coloured, uncoloured } from '../terminal/paint.ts';
import { Screen } from '../terminal/screen.ts';
import { worstLevel } from './host/finding.ts';
import { findingLines } from './finding-lines.ts';
import { hideSecrets } from './hide-secrets.ts';
import { systemReadings } from './host/readings.ts';
import { runProbes } from './host/run-probes.ts';

export interface DoctorOptions {
  readonly json: boolean;
}

/** Runs `shardwise doctor`. What is broken is a finding, so it returns whatever it finds. */
export async function doctorCommand({ json }: DoctorOptions): Promise<void> {
  const readings = systemReadings();
  const findings = hideSecrets(await runProbes(readings), process.env);
  if (json) {
    const level = worstLevel(findings);
    process.stdout.write(
      `${JSON.stringify({ level, host: readings.host, findings }, undefined, 2)}\n`,
    );
    return;
  }
  const { columns } = new Screen(process.stdout);
  const { NO_COLOR: noColour, TERM: terminal } = process.env;
  const paint = process.stdout.isTTY && !noColour && terminal !== 'dumb' ? coloured : uncoloured;
  process.stdout.write(`${findingLines(findings, columns, paint).join('\n')}\n`);
}
