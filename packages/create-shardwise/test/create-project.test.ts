import { mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { createProject, isTemplate, UsageError } from '../src/create-project.ts';
import { run } from '../src/run.ts';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'shardwise-create-'));
});

const files = ['.gitignore', 'README.md', 'package.json', 'src', 'test', 'tsconfig.json'];

function nameIn(path: string): unknown {
  const manifest: unknown = JSON.parse(readFileSync(join(path, 'package.json'), 'utf8'));
  return typeof manifest === 'object' && manifest !== null && 'name' in manifest
    ? manifest.name
    : undefined;
}

describe('a project', () => {
  it('is made in a folder that is not there, also below others', () => {
    const path = createProject(join(folder, 'a', 'spirals'));
    expect(path).toBe(join(folder, 'a', 'spirals'));
    expect(readdirSync(path).toSorted()).toEqual(files);
    expect(readFileSync(join(path, 'README.md'), 'utf8')).toMatch(/^# spirals\n/);
  });

  it('is made in an empty folder, and in a repository without files', () => {
    mkdirSync(join(folder, '.git'));
    createProject(folder);
    expect(readdirSync(folder).toSorted()).toEqual(['.git', ...files]);
  });

  it.each([
    ['spirals', 'spirals'],
    ['My Spirals!', 'my-spirals'],
    ['.hidden', 'hidden'],
    ['spirals_2.0', 'spirals_2.0'],
    ['旋', 'training'],
  ])('in the folder %j is called %j, as npm wants it', (place, name) => {
    expect(nameIn(createProject(join(folder, place)))).toBe(name);
  });

  it('is refused where something lies already, which stays as it is', () => {
    for (const name of ['notes.txt', 'b.txt']) writeFileSync(join(folder, name), name);
    expect(() => createProject(folder)).toThrow(UsageError);
    expect(() => createProject(folder)).toThrow(
      /it is not empty \(b\.txt and 1 more\)\. Give the name/,
    );
    expect(readdirSync(folder).toSorted()).toEqual(['b.txt', 'notes.txt']);
  });

  it('is refused where the folder is a file', () => {
    const file = join(folder, 'file');
    writeFileSync(file, '');
    expect(() => createProject(file)).toThrow(/file already exists.*\. Give another folder$/);
  });
});

describe('a project of a template', () => {
  it.each([
    ['gpt', ['train.ts']],
    ['classifier', ['data', 'pretrain.ts', 'texts.ts', 'train.ts']],
    ['lora', ['data', 'pretrain.ts', 'train.ts']],
  ])('%s has its own files, and asks for the packages that they import', (template, own) => {
    if (!isTemplate(template)) throw new Error(`no template ${template}`);
    const path = createProject(join(folder, template), template);
    const common = ['.gitignore', 'README.md', 'package.json', 'tsconfig.json'];
    expect(readdirSync(path).toSorted()).toEqual([...common, ...own].toSorted());
    const manifest = readFileSync(join(path, 'package.json'), 'utf8');
    const sources = own.filter((name) => name.endsWith('.ts'));
    for (const source of sources) {
      const text = readFileSync(join(path, source), 'utf8');
      for (const [, name] of text.matchAll(/from '((?:@shardwise\/)?[a-z]+)/g)) {
        if (name !== 'node') expect(manifest).toContain(`"${name}": "^`);
      }
    }
    expect(manifest).toContain('"train": "shardwise run --nproc 2 train.ts"');
  });
});

describe('the command', () => {
  function ended(...args: string[]): { readonly code: number; readonly text: string } {
    let text = '';
    const keep = (more: unknown): boolean => {
      text += String(more);
      return true;
    };
    const spies = [process.stdout, process.stderr].map((stream) =>
      vi.spyOn(stream, 'write').mockImplementation(keep),
    );
    const code = run(args);
    for (const spy of spies) spy.mockRestore();
    return { code, text };
  }

  it('makes the project of the template that is named', () => {
    const path = join(folder, 'my-gpt');
    expect(ended(path, '--template', 'gpt')).toEqual({
      code: 0,
      text: expect.stringContaining('my-gpt. Next:'),
    });
    expect(readdirSync(path)).toContain('train.ts');
  });

  it.each([
    [['--template', 'bert'], /no template 'bert' among spirals, gpt, classifier, lora\. See/],
    [['--template', 'constructor'], /no template 'constructor'/],
    [['--template'], /option '--template <value>' argument missing/],
    [['--templates', 'gpt'], /unknown option '--templates'/],
  ])('refuses %j, and makes nothing', (args, message) => {
    const path = join(folder, 'refused');
    const { code, text } = ended(path, ...args);
    expect(code).toBe(2);
    expect(text).toMatch(message);
    expect(readdirSync(folder)).toEqual([]);
  });

  it('refuses a template in a folder that is not empty', () => {
    writeFileSync(join(folder, 'notes.txt'), '');
    expect(ended(folder, '--template', 'lora').text).toMatch(/it is not empty \(notes\.txt\)/);
    expect(readdirSync(folder)).toEqual(['notes.txt']);
  });

  it('lists the templates in its help', () => {
    for (const name of ['spirals', 'gpt', 'classifier', 'lora']) {
      expect(ended('--help').text).toContain(`\n  ${' '.repeat(16)}${name} `);
    }
  });
});
