import { detectLaunch } from '../src/environment/detect-launch.ts';

// What a test has a launcher start: says how.
process.stdout.write(`${JSON.stringify(detectLaunch(process.env))}\n`);
