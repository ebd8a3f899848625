import { cpu } from '@shardwise/backend-cpu';
import { interpreter } from '@shardwise/testing';
import type { Backend } from '@shardwise/core';
import type { GeneratedPage } from './page.ts';

const names = (set: ReadonlySet<string>): string =>
  [...set]
    .toSorted()
    .map((name) => `\`${name}\``)
    .join(', ') || 'none';

function row(title: string, { limits }: Backend): string {
  return `## ${title}\n\n| limit | value |\n| --- | --- |\n| computes with | ${names(limits.dtypes)} |\n| alignment of sub-buffers | ${limits.alignment} bytes |\n| runs without decomposition | ${names(limits.native)} |`;
}

/** Makes the page with the limits that each backend reports on the machine that builds the site. */
export async function limitsPage(): Promise<GeneratedPage> {
  return {
    path: 'reference/generated/limits.md',
    title: 'Limits of backends',
    text: [
      '# Limits of backends',
      'A backend states its limits in [`BackendLimits`](../spec/backend.md#backendlimits). Operations that it does not run itself are decomposed into those that it does. These are the limits that the backends state:',
      row('backend-cpu', await cpu()),
      row('The reference interpreter', interpreter()),
      '## backend-webgpu\n\nIts limits are those of the device. Ask with `(await webgpu()).limits` where it runs. WebGPU binds at most 128 MiB as one buffer unless the adapter offers more. [Try this device](/contract/){target="_self"} says whether a browser computes as this library needs it.',
    ].join('\n\n'),
  };
}
