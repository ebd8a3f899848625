import { type PageRun, startRanks } from 'shardwise/browser';
import { isFinding } from './contract-finding.ts';
import { ContractReport } from './contract-report.ts';
import { chosenDevice, elementOf, say } from './elements.ts';

const form = elementOf('settings', HTMLFormElement);
const run = elementOf('run', HTMLButtonElement);
const stop = elementOf('stop', HTMLButtonElement);
const copy = elementOf('copy', HTMLButtonElement);
const text = elementOf('report', HTMLElement);

form.addEventListener('submit', (event) => {
  event.preventDefault();
  void tryDevice();
});
copy.addEventListener('click', () => void copyReport());

function show(report: ContractReport): void {
  const { passed, skipped, failed } = report.counts;
  for (const [id, count] of Object.entries({ passed, skipped, failed })) {
    elementOf(id, HTMLElement).textContent = String(count);
  }
  text.textContent = report.toString();
}

async function tryDevice(): Promise<void> {
  const report = new ContractReport();
  run.disabled = copy.disabled = true;
  stop.disabled = false;
  say('Running the tests.');
  // Findings come faster than a page can be drawn, so the page is drawn once a frame.
  let frame = 0;
  const draw = (): void => {
    frame = 0;
    show(report);
  };
  try {
    const started: PageRun = await startRanks({
      size: 1,
      script: () => new Worker(new URL('./contract-rank.ts', import.meta.url), { type: 'module' }),
      device: chosenDevice(),
      onValue: (value) => {
        if (!isFinding(value)) return;
        report.add(value);
        if (value.kind === 'measured') say('Measuring.');
        frame ||= requestAnimationFrame(draw);
      },
    });
    report.runsOn(started.device);
    const over = new AbortController();
    stop.addEventListener('click', () => started.terminate(), { signal: over.signal });
    const [end] = await started.ended;
    over.abort();
    const { failed } = report.counts;
    if (end?.status === 'failed') say(end.error?.message ?? 'The rank failed.', true);
    else if (end?.status === 'terminated') say('Stopped.');
    else if (failed > 0) say(`Done: ${failed} tests failed.`, true);
    else say('Done: the device keeps the contract.');
  } catch (error) {
    say(error instanceof Error ? error.message : String(error), true);
  }
  cancelAnimationFrame(frame);
  show(report);
  run.disabled = copy.disabled = false;
  stop.disabled = true;
}

async function copyReport(): Promise<void> {
  try {
    await navigator.clipboard.writeText(text.textContent ?? '');
    say('The report is copied.');
  } catch {
    // Without the clipboard the visitor copies the selected text.
    getSelection()?.selectAllChildren(text);
    say('The report is selected: copy it.');
  }
}
