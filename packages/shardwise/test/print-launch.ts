import { detectLaunch } from '../src/environment/detect-launch.ts';

// A test lets a launcher start this program. It prints the launch that it detects.
process.stdout.write(`${JSON.stringify(detectLaunch(process.env))}\n`);
