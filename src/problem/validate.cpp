// Every mistake in a call, found before anything runs; the themes are in check_*.cpp.
#include "problem/addresses.h"
#include "problem/checks.h"

namespace tilewright {

Backend resolve(const Problem& problem, Backend backend) {
    if (backend != Backend::automatic) return backend;
    return problem.d.device.kind == DeviceId::Kind::cuda ? Backend::hopper : Backend::cpu;
}

std::vector<Finding> validate(const Problem& call, Backend asked, Check check) {
    using namespace validation;
    const Backend backend = resolve(call, asked);
    Findings findings;
    check_packed(call, check, findings);
    if (packed_is_unknown(call, check)) return findings.take();
    const Problem problem = with_ordinary_weights(call);
    const bool known_words = check_words(problem, findings);
    check_tensors(problem, findings);
    check_formats(problem, findings);
    if (known_words) {
        const Sizes sizes = sizes_of(problem);
        check_shapes(problem, sizes, findings);
        check_scales(problem, sizes, findings);
    }
    check_options(problem, findings);
    if (check != Check::shapes) check_memory(problem, backend, findings);
    check_backend(backend, findings);
    if (backend == Backend::hopper) check_hopper(problem, call.b.packed, check, findings);
    if (check == Check::contents && findings.empty()) check_group_sizes(problem, sizes_of(problem), findings);
    return findings.take();
}

std::vector<Finding> validate_addresses(const Problem& call, Backend asked) {
    using namespace validation;
    const Backend backend = resolve(call, asked);
    Findings findings;
    check_packed(call, Check::call, findings);
    if (packed_is_unknown(call, Check::call)) return findings.take();
    const Problem problem = with_ordinary_weights(call);
    check_memory(problem, backend, findings);
    if (backend == Backend::hopper) check_hopper_addresses(problem, call.b.packed, findings);
    return findings.take();
}

}  // namespace tilewright
