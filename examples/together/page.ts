// The page: asks for the coordinator, and starts a rank that trains with the others.
import { startRanks } from 'shardwise/browser';
import { withDirectLinks } from 'shardwise/together';
import type { JoinForm } from './rank.ts';

function element<T extends Element>(selector: string, type: new () => T): T {
  const found = document.querySelector(selector);
  if (found instanceof type) return found;
  throw new RangeError(`no ${selector} in the page`);
}

const form = element('form', HTMLFormElement);
const status = element('output', HTMLOutputElement);
const stop = element('#stop', HTMLButtonElement);

async function trainInPage(): Promise<void> {
  const fields = new FormData(form);
  const field = (name: string): string => {
    const value = fields.get(name);
    return typeof value === 'string' ? value : '';
  };
  const data: JoinForm = {
    url: field('url'),
    token: field('token'),
    name: field('name'),
    text: field('text'),
  };
  const run = await startRanks({
    size: 1,
    script: () =>
      withDirectLinks(new Worker(new URL('./rank.ts', import.meta.url), { type: 'module' })),
    data,
    onStep: ({ step, loss }) => {
      status.value = `update ${step}, loss ${loss?.toFixed(3) ?? ''}`;
    },
  });
  stop.disabled = false;
  stop.addEventListener('click', () => run.stop(), { once: true });
  const [end] = await run.ended;
  stop.disabled = true;
  if (end?.error !== undefined) throw end.error;
}

form.addEventListener('submit', (event) => {
  event.preventDefault();
  status.value = 'joins';
  trainInPage().catch((error: unknown) => {
    status.value = error instanceof Error ? error.message : String(error);
  });
});
