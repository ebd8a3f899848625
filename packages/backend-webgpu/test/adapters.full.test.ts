import { reasonWithoutDevice } from '@shardwise/testing/node';
import { describe, expect, test } from 'vitest';
import { webgpu } from '../src/index.ts';

const reason = await reasonWithoutDevice(webgpu);

describe.skipIf(reason !== undefined)(
  `adapters in Node${reason ? ` (not here: ${reason})` : ''}`,
  () => {
    test('are taken by a part of their name, and a name that none has is an error', async () => {
      const error: unknown = await webgpu({ adapter: 'Voodoo 2' }).catch((cause: unknown) => cause);
      expect(String(error)).toContain("this host has no adapter with 'Voodoo 2' in its name");
      // The error lists the existing adapters.
      const [, name = ''] = /name: '([^']+)'/.exec(String(error)) ?? [];
      const device = await webgpu({ adapter: name.slice(0, 6) });
      expect(device.adapter).not.toBe('');
      // The report of a run contains this line.
      expect(device.description).toContain(`webgpu: ${device.adapter}, `);
      expect(device.description).toMatch(/(with f16|f16 by conversion), bindings of \d+ bytes/);
      device.close();
    });
  },
);
