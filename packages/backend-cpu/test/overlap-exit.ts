import { cpu } from '../src/cpu.ts';
import { prepareLongRun } from './long-run.ts';

// This process ends while a run is under way.
const { executable, inputs, outputs } = await prepareLongRun(await cpu(), 60);
void executable.run(inputs, outputs, { overlap: true });
setImmediate(() => process.exit(7));
