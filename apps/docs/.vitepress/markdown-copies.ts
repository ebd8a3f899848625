import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { SiteConfig } from 'vitepress';

/** Replaces lines such as `<<< path` by the file, as fenced code. */
async function withSnippets(markdown: string, file: string, srcDir: string): Promise<string> {
  let result = markdown;
  for (const [line, path = '', words = ''] of markdown.matchAll(/^<<< (\S+?)(\{[^}]*\})?$/gm)) {
    const snippet = path.startsWith('@') ? join(srcDir, path.slice(1)) : join(dirname(file), path);
    const code = await readFile(snippet, 'utf8');
    const language = words.replaceAll(/[{}\d,-]/g, '').trim() || (/\.(\w+)$/.exec(path)?.[1] ?? '');
    result = result.replace(line, () => `\`\`\`${language}\n${code.trimEnd()}\n\`\`\``);
  }
  return result;
}

/**
 * Writes the Markdown of each page beside it, and `llms.txt` that lists all pages. They are for programs, and for
 * readers who want text. A line names each component, which draws something on the site.
 */
export async function writeMarkdownCopies(site: SiteConfig): Promise<void> {
  const entries: {
    readonly page: string;
    readonly title: string;
    readonly text: string;
    readonly isSignatures: boolean;
  }[] = [];
  for (const page of site.pages) {
    const file = join(site.srcDir, page);
    const source = await readFile(file, 'utf8');
    const body = source.replace(/^---\n[^]*?\n---\n/, '');
    const text = (await withSnippets(body, file, site.srcDir))
      .replaceAll(/^<([A-Z]\w+)[^>]*\/>$/gm, '(On the site, $1 stands here: it runs in the page.)')
      .replaceAll(/^<\/?RunExample[^>]*>\n+/gm, '')
      .replaceAll(
        /^<figure class="drawing">\n.*\n<figcaption>(.*)<\/figcaption>\n<\/figure>$/gm,
        '(On the site, a drawing stands here. $1)',
      )
      .replaceAll(/^<\/?div[^>]*>\n+/gm, '')
      .replaceAll(/ \{#[\w-]+\}$/gm, '')
      .replaceAll('{target="_self"}', '')
      .trim();
    const title = /^title: "?(.*?)"?$/m.exec(source)?.[1] ?? /^# (.*)$/m.exec(text)?.[1] ?? page;
    entries.push({ page, title, text, isSignatures: /^pageClass: signatures$/m.test(source) });
    const target = join(site.outDir, page);
    await mkdir(dirname(target), { recursive: true });
    await writeFile(target, `${text}\n`);
  }
  const parts = ['learn', 'guides', 'explore', 'reference', 'how-it-works'];
  const list = (part: string): string =>
    entries
      .filter(({ page }) => page.startsWith(`${part}/`))
      .map(({ page, title }) => `- [${title}](${site.site.base}${page})`)
      .join('\n');
  const text = [
    '# Shardwise',
    '> Distributed deep-learning training for TypeScript. Every page of this site is also there as Markdown.',
    ...parts.map((part) => `## ${part}\n\n${list(part)}`),
  ].join('\n\n');
  await writeFile(join(site.outDir, 'llms.txt'), `${text}\n`);
  const written = entries.filter(({ isSignatures }) => !isSignatures);
  await writeFile(
    join(site.outDir, 'llms-full.txt'),
    `${written.map(({ page, text }) => `<!-- ${page} -->\n\n${text}`).join('\n\n')}\n`,
  );
}
