import { LiveOutput } from '../terminal/live-output.ts';
import { coloured, uncoloured } from '../terminal/paint.ts';
import { PlainOutput } from '../terminal/plain-output.ts';
import type { RunOutput } from '../terminal/run-output.ts';

/** The live block where a person looks at a terminal that can show one, else plain lines. */
export function terminalOutput(plain: boolean): RunOutput {
  const { TERM: terminal, NO_COLOR: noColour } = process.env;
  if (plain || !process.stdout.isTTY || terminal === 'dumb') return new PlainOutput(process);
  return new LiveOutput(process.stdout, noColour ? uncoloured : coloured);
}
