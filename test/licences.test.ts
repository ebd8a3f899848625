import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { repository } from './support/documents.ts';

const manifestSchema = z.object({
  license: z.string().optional(),
  dependencies: z.record(z.string(), z.string()).optional(),
  optionalDependencies: z.record(z.string(), z.string()).optional(),
});
const lockSchema = z.object({ packages: z.record(z.string(), manifestSchema) });

/** Licences that let users of our packages use, change and sell what comes with them, and only require a notice. */
const permissive =
  /^\(?(?:MIT|ISC|BSD-[23]-Clause|0BSD|Apache-2\.0|BlueOak-1\.0\.0)(?: OR .*)?\)?$/;

test('what a user installs with our packages has a permissive licence', () => {
  const { packages } = lockSchema.parse(
    JSON.parse(readFileSync(join(repository, 'package-lock.json'), 'utf8')),
  );
  const licences = new Map<string, string>();
  const waiting = Object.entries(packages).flatMap(([path, manifest]) =>
    path.startsWith('packages/') ? [manifest] : [],
  );
  for (let manifest = waiting.pop(); manifest !== undefined; manifest = waiting.pop()) {
    const { dependencies, optionalDependencies } = manifest;
    const needed = { ...dependencies, ...optionalDependencies };
    for (const name of Object.keys(needed)) {
      const found = packages[`node_modules/${name}`];
      if (licences.has(name) || name.endsWith('shardwise') || name.startsWith('@shardwise/'))
        continue;
      licences.set(name, found?.license ?? 'none');
      if (found !== undefined) waiting.push(found);
    }
  }
  expect([...licences.keys()]).toEqual(expect.arrayContaining(['zod', 'koffi']));
  expect([...licences].filter(([, licence]) => !permissive.test(licence))).toEqual([]);
});
