import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { chromium, type Browser } from 'playwright-core';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];
const FLAGS = [
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/** The path of a Chromium that is installed here: SHARDWISE_BROWSER, or one of the usual names. */
export function findBrowser(): string | undefined {
  const folders = (process.env['PATH'] ?? '').split(delimiter);
  const named = process.env['SHARDWISE_BROWSER'];
  const candidates = NAMES.flatMap((name) => folders.map((folder) => join(folder, name)));
  return (named === undefined ? candidates : [named]).find((path) => {
    try {
      accessSync(path, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

export async function launchBrowser(executablePath: string): Promise<Browser> {
  // Its sandbox refuses root.
  const sandbox = process.getuid?.() === 0 ? ['--no-sandbox'] : [];
  return chromium.launch({ executablePath, args: ['--headless=new', ...FLAGS, ...sandbox] });
}
