import { fork } from 'node:child_process';
import { once } from 'node:events';
import { expect, it } from 'vitest';
import { z } from 'zod';

const MIB = 1024 * 1024;
const growth = z.object({ most: z.number(), left: z.number() });

const report = process.report.getReport();
const header: unknown = 'header' in report ? report.header : null;
const hasGlibc =
  process.platform === 'linux' &&
  typeof header === 'object' &&
  header !== null &&
  'glibcVersionRuntime' in header;

it.runIf(hasGlibc)(
  'memory of freed arrays goes back to the system, whether or not ONNX Runtime was ever loaded',
  async () => {
    const child = fork(new URL('./freed-memory.ts', import.meta.url));
    const [message] = await once(child, 'message');
    const { most, left } = growth.parse(message);
    expect(most).toBeGreaterThan(30 * MIB);
    expect(left).toBeLessThan(8 * MIB);
  },
);
