/** Options of torchrun, accelerate launch and deepspeed that mean the same as one of ours, which takes their value. */
const SYNONYMS: Readonly<Record<string, string>> = {
  // torchrun, in both of its spellings
  '--nproc_per_node': '--nproc',
  '--nproc-per-node': '--nproc',
  '--node_rank': '--node-rank',
  '--rdzv_endpoint': '--rdzv',
  '--rdzv-endpoint': '--rdzv',
  '--rdzv_id': '--rdzv-id',
  '--max_restarts': '--max-restarts',
  // accelerate launch
  '--num_machines': '--nnodes',
  '--machine_rank': '--node-rank',
  // deepspeed
  '--num_gpus': '--nproc',
  '--num_nodes': '--nnodes',
};

/** Our options that take no value. */
const SWITCHES = new Set(['--no-report', '--plain', '--help', '--version', '-h', '-V']);

/**
 * Gives the options of other launchers, before the script, the names of ours. Arguments of the script stay as they are. `argv` has
 * the form of process.argv.
 */
export function withOwnNames(argv: readonly string[]): readonly string[] {
  const first = argv.indexOf('run', 2);
  if (first !== 2) return argv;
  const words = [...argv];
  for (let index = first + 1; index < words.length; index++) {
    const word = words[index] ?? '';
    if (!word.startsWith('-') || word === '--') break;
    const [name = word] = word.split('=', 1);
    const own = Object.hasOwn(SYNONYMS, name) ? SYNONYMS[name] : undefined;
    if (own !== undefined) words[index] = `${own}${word.slice(name.length)}`;
    const hasValue = name !== word || SWITCHES.has(word) || /^-n\d/.test(word);
    if (!hasValue) index++;
  }
  return words;
}
