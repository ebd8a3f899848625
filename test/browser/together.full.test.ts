import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { openPage, onRanks, reasonWithoutBrowser } from '@shardwise/testing/node';
import { expect, it, onTestFinished } from 'vitest';
import { z } from 'zod';
import { runShardwise } from '../support/run-shardwise.ts';
import { buildPage } from './build-page.ts';
import { serveFolder } from './serve-folder.ts';
import { trainMember } from './together-page/train-member.ts';

const memberResult = z.object({ rounds: z.int(), values: z.array(z.number()) });
const reason = reasonWithoutBrowser();

it.skipIf(reason !== undefined)(
  'Node and two pages train one model by `shardwise coordinate`, and have the same bits after the same round; the pages reach each other directly',
  async () => {
    const folder = mkdtempSync(join(tmpdir(), 'shardwise-together-'));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    await buildPage(join(import.meta.dirname, 'together-page'), folder);
    const port = await freePort();
    const [url, token] = [`ws://127.0.0.1:${port}`, 'a token that members know'];
    const tokenFile = join(folder, 'run.token');
    writeFileSync(tokenFile, token);
    const listening = Promise.withResolvers<() => void>();
    const coordinator = runShardwise(
      ['coordinate', '--port', String(port), '--token-file', tokenFile],
      {
        cwd: folder,
        when: {
          prints: 'Who is there',
          act: (child) => listening.resolve(() => child.kill('SIGTERM')),
        },
      },
    );
    const end = await listening.promise;
    onTestFinished(end);
    const taskOf = (name: string): object => ({ url, token, name, members: 3, direct: 1 });
    const pages = ['first page', 'second page'].map(async (name) => {
      await using server = await serveFolder(folder, { isolated: true, tasks: taskOf(name) });
      await using _page = openPage(server.url, { withWebGpu: false });
      return memberResult.parse(await server.result);
    });
    const node = onRanks(1, () => trainMember({ url, token, name: 'Node', members: 3, direct: 0 }));
    const links = linksUntilDirect(`http://127.0.0.1:${port}/status`);
    const [[own], ...others] = await Promise.all([node, ...pages]);
    // The updates of a page go to the other one directly, and to Node by the coordinator.
    expect(await links).toEqual(['Node relay', 'first page both', 'second page both']);
    for (const other of others) expect(other).toEqual(own);
    end();
    expect((await coordinator).exitCode).toBe(0);
  },
);

const statusLinks = z.object({
  members: z.array(z.object({ name: z.string(), link: z.string() })),
});

/** Waits until the coordinator says that members reach each other directly, and returns the links of all. */
async function linksUntilDirect(address: string): Promise<readonly string[]> {
  for (;;) {
    const { members } = statusLinks.parse(await (await fetch(address)).json());
    const links = members.map(({ name, link }) => `${name} ${link}`).toSorted();
    if (links.length === 3 && links.some((each) => each.endsWith('both'))) return links;
    await delay(50);
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  return port;
}
